// What others have written (a file, a program), made fit for a message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trireme {

constexpr std::size_t kMostPrinted = 300; // characters

// One line of at most `most` characters of plain ASCII: white space, also at line ends, is one space,
// anything else is '?', and what is left out is "...": printable("no\n  way\a") is "no way?".
std::string printable(std::string_view text, std::size_t most = kMostPrinted);

} // namespace trireme
