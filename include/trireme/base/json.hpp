// Writing JSON: strings with their escapes, everything else is text that the caller puts together.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// `text`, which is UTF-8, in quotes.
std::string json_string(std::string_view text);

// The shortest text that reads back to the same number, with a point or an exponent: 1.0, 0.02, 1e-05.
std::string json_number(double value);

} // namespace trireme
