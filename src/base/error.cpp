// Error and the assertion behind TRIREME_ASSERT.
#include "trireme/base/error.hpp"

#include <utility>

namespace trireme {

Error::Error(ErrorCategory category, std::string what_happened, std::vector<std::string> details,
             std::source_location where)
    : std::runtime_error(std::move(what_happened)), category_(category), details_(std::move(details)),
      where_(where) {}

std::string Error::message() const {
    std::string text = concat("trireme: error: ", what(), "\n");
    for (const std::string& line : details_)
        text += concat("  ", line, "\n");
    if (category_ == ErrorCategory::internal)
        text += concat("  at ", where_.file_name(), ":", where_.line(),
                       " (a bug of trireme: please report it with the command line)\n");
    return text;
}

void fail_assertion(const char* condition, const std::string& why, std::source_location where) {
    const std::string text = why.empty() ? concat("assertion failed: ", condition)
                                         : concat(why, " (assertion failed: ", condition, ")");
    throw Error(ErrorCategory::internal, text, {}, where);
}

} // namespace trireme
