// Options that do not go together, as examples: what docs/options.md shows of the rules between options. The
// message beside each is the one that the rules give, so the page cannot say anything else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::options {

struct Conflict {
    std::string_view arguments; // beside those that every run needs
    std::int64_t ranks = 1;
    std::string_view length = "--train-iters 10";
};
const std::vector<Conflict>& conflicts();

// "trireme: error: ..." with its details, for a run that needs nothing but this mended.
std::string message_of(const Conflict& conflict);

} // namespace trireme::options
