// Escapes of JSON strings; numbers.
#include "trireme/base/json.hpp"

#include <array>
#include <charconv>

namespace trireme {

std::string json_string(std::string_view text) {
    constexpr std::string_view kHex = "0123456789abcdef";
    std::string out = "\"";
    for (const char character : text) {
        const auto byte = static_cast<unsigned char>(character);
        if (character == '"' || character == '\\')
            (out += '\\') += character;
        else if (character == '\n')
            out += "\\n";
        else if (byte < 0x20)
            ((out += "\\u00") += kHex[byte >> 4]) += kHex[byte & 15];
        else
            out += character;
    }
    return out += '"';
}

std::string json_number(double value) {
    std::array<char, 32> text{};
    const std::to_chars_result end = std::to_chars(text.data(), text.data() + text.size(), value);
    std::string number(text.data(), end.ptr);
    if (number.find_first_of(".e") == std::string::npos)
        number += ".0";
    return number;
}

} // namespace trireme
