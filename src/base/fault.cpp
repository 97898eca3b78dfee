// Fault points: the variable is read once.
#include "trireme/base/fault.hpp"

#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <string>
#include <string_view>

#include "trireme/base/error.hpp"
#include "trireme/base/file.hpp"

namespace trireme {
namespace {

struct Fault {
    std::string where;
    int rank = -1; // -1: every rank
    std::int64_t visit = 1;
    std::string action;
    std::atomic<std::int64_t> visits{0};
};

template <class Number>
bool read_number(std::string_view text, Number& number) {
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    return failure == std::errc{} && end == text.data() + text.size() && number >= 0;
}

// "save-write@1#3=kill"; false if it is not of that form.
bool read_fault(std::string_view text, Fault& fault) {
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos)
        return false;
    fault.action = text.substr(equals + 1);
    std::string_view place = text.substr(0, equals);
    if (const std::size_t sharp = place.find('#'); sharp != std::string_view::npos) {
        if (!read_number(place.substr(sharp + 1), fault.visit) || fault.visit == 0)
            return false;
        place = place.substr(0, sharp);
    }
    if (const std::size_t at = place.find('@'); at != std::string_view::npos) {
        if (!read_number(place.substr(at + 1), fault.rank))
            return false;
        place = place.substr(0, at);
    }
    fault.where = place;
    return !place.empty() && (fault.action == "kill" || fault.action == "stop" || fault.action == "nospace" ||
                              fault.action == "ioerror");
}

// Never destroyed: threads may pass fault points until the end.
std::deque<Fault>& faults() {
    static auto& all = *new std::deque<Fault>;
    [[maybe_unused]] static const bool once = [] {
        const char* variable = std::getenv("TRIREME_FAULT");
        std::string_view text = variable == nullptr ? "" : variable;
        while (!text.empty()) {
            const std::size_t comma = std::min(text.find(','), text.size());
            if (!read_fault(text.substr(0, comma), all.emplace_back())) {
                all.clear();
                throw Error(
                    ErrorCategory::usage,
                    concat("TRIREME_FAULT holds '", text.substr(0, comma), "', which names no fault"),
                    {"it is for tests: WHERE[@RANK][#N]=kill, stop, nospace or ioerror", "try: without it"});
            }
            text.remove_prefix(std::min(comma + 1, text.size()));
        }
        return true;
    }();
    return all;
}

std::atomic<int> rank_of_process{0};

} // namespace

void set_fault_rank(int rank) {
    rank_of_process = rank;
}

void check_fault_variable() {
    static_cast<void>(faults());
}

void fault_point(const char* where) {
    for (Fault& fault : faults()) {
        if (fault.where != where || (fault.rank >= 0 && fault.rank != rank_of_process) ||
            ++fault.visits != fault.visit)
            continue;
        if (fault.action == "kill")
            std::raise(SIGKILL);
        if (fault.action == "stop") {
            std::raise(SIGSTOP);
            continue;
        }
        errno = fault.action == "nospace" ? ENOSPC : EIO;
        throw Error(ErrorCategory::output,
                    concat("cannot write at fault point ", where, ": ", system_reason()),
                    {"TRIREME_FAULT asked for it"});
    }
}

} // namespace trireme
