// Another program, asked for a line or two: what it prints, within a time limit.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trireme {

// Starts `arguments[0]` (found in PATH) and returns its standard output; its errors are not shown. Nothing if
// it cannot be started, fails, or is not through after `seconds`: it is then ended. No fork of this process:
// its memory may be pinned by a network.
std::optional<std::string> output_of(const std::vector<std::string>& arguments, double seconds);

} // namespace trireme
