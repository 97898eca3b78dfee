// Errors: every failure that a user can meet is one Error, with a category that fixes the exit code of the
// program, one line that says what happened and lines that say where and what to do about it.
// Only main(), thread entries and comm::agree() catch; destructors never throw.
#pragma once

#include <source_location>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace trireme {

// The value is the exit code of the program.
enum class ErrorCategory : int {
    internal = 1,      // a broken invariant: our bug
    usage = 2,         // options or configuration
    data = 3,          // input files
    checkpoint = 4,    // missing, damaged or of another model
    communication = 5, // MPI, NCCL, the watchdog
    device = 6,        // device, memory, a failed preflight
    non_finite = 7,    // loss or gradient is NaN or infinite
    output = 74,       // cannot be written: rights, disk full
    interrupted = 75,  // stopped by a signal or a time limit after saving: run me again
};

// Set by comm::agree(): `ranks` ranks throw the same Error together, and the world rank `speaker` of them
// prints it.
struct Agreement {
    int ranks = 0; // 0: thrown by this rank alone
    int speaker = -1;
};

class Error : public std::runtime_error {
  public:
    // `what_happened`: one line without a full stop. `details`: each printed indented below it (the option
    // and where its value came from, file:line, rank and host, "try: ...").
    Error(ErrorCategory category, std::string what_happened, std::vector<std::string> details = {},
          std::source_location where = std::source_location::current());

    ErrorCategory category() const { return category_; }
    int exit_code() const { return static_cast<int>(category_); }
    const std::vector<std::string>& details() const { return details_; }
    const std::source_location& where() const { return where_; }
    const Agreement& agreement() const { return agreement_; }
    void set_agreement(const Agreement& agreement) { agreement_ = agreement; }

    // "trireme: error: WHAT\n  DETAIL\n  DETAIL\n"; internal errors name the source location too.
    std::string message() const;

  private:
    ErrorCategory category_;
    std::vector<std::string> details_;
    std::source_location where_;
    Agreement agreement_;
};

// concat("6 ranks do not fit TP ", 4) == "6 ranks do not fit TP 4". Stands in for std::format (absent in g++
// 12).
template <class... Parts>
std::string concat(const Parts&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
}

[[noreturn]] void fail_assertion(const char* condition, const std::string& why, std::source_location where);

// Our own invariants; stays on in release builds. Throws Error of category internal.
#define TRIREME_ASSERT(condition, ...)                                                                       \
    do {                                                                                                     \
        if (!(condition)) [[unlikely]]                                                                       \
            ::trireme::fail_assertion(#condition, ::trireme::concat(__VA_ARGS__),                            \
                                      std::source_location::current());                                      \
    } while (false)

} // namespace trireme
