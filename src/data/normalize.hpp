// Unicode's normalization form C: characters and the marks that follow them become the one character that
// Unicode has for both, "e" U+0301 becomes "é". Qwen's tokenizers ask for it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trireme::data {

struct CanonicalMapping {
    std::uint32_t from, first, second; // second 0: a mapping to one character
    bool composes;                     // first, second become `from` again
};
struct CombiningClasses {
    std::uint32_t begin, last;
    std::uint8_t value;
};
// Defined by the generated nfc_table.cpp, ascending.
extern const std::span<const CanonicalMapping> kCanonicalMappings;
extern const std::span<const CombiningClasses> kCombiningClasses;

// Whether all characters are below U+0300, the first that composition can change. Fast.
bool is_surely_nfc(std::string_view text);

// Bytes that are not valid UTF-8 stay as they are. Throws Error (data) on millions of marks without a
// character.
void normalize_nfc(std::string_view text, std::string& normal);

} // namespace trireme::data
