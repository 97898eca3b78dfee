// Letters, numbers and spaces as one Unicode version has them, and decoding of UTF-8 with what a
// pre-tokenizer needs beside it: a byte that starts no valid character counts as a character of its own and
// as neither of the three.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace trireme::data {

struct CodePointRange {
    std::uint32_t first, last;
};

// Defined by the generated unicode_table.cpp.
extern const char* const kUnicodeVersion;
extern const std::span<const CodePointRange> kLetterRanges;
extern const std::span<const CodePointRange> kNumberRanges;
extern const std::span<const CodePointRange> kSpaceRanges;

enum class CharacterClass : std::uint8_t { other = 0, letter = 1, number = 2, space = 3 };

// One byte for each of the 0x110000 code points, made from the ranges on first use.
const CharacterClass* character_classes();

struct Character {
    CharacterClass kind;
    std::uint8_t bytes;
};

struct DecodedCharacter {
    std::uint32_t code_point; // 0xFFFFFFFF: a byte that starts no valid character
    std::uint8_t bytes;       // at least 1
};

// The character at text[0]; text is not empty. Overlong forms, surrogates and values above 0x10FFFF are not
// valid.
inline DecodedCharacter decode_utf8(std::string_view text) {
    constexpr DecodedCharacter kInvalid = {0xFFFFFFFFu, 1};
    const auto byte = [&](std::size_t index) {
        return static_cast<std::uint32_t>(static_cast<unsigned char>(text[index]));
    };
    const auto continues = [&](std::size_t index) { return (byte(index) & 0xC0u) == 0x80u; };
    const std::uint32_t lead = byte(0);
    if (lead < 0x80)
        return {lead, 1};
    if (lead < 0xC2 || lead > 0xF4)
        return kInvalid;
    if (lead < 0xE0) {
        if (text.size() < 2 || !continues(1))
            return kInvalid;
        return {((lead & 0x1Fu) << 6) | (byte(1) & 0x3Fu), 2};
    }
    if (lead < 0xF0) {
        if (text.size() < 3 || !continues(1) || !continues(2))
            return kInvalid;
        const std::uint32_t value = ((lead & 0x0Fu) << 12) | ((byte(1) & 0x3Fu) << 6) | (byte(2) & 0x3Fu);
        if (value < 0x800 || (value >= 0xD800 && value <= 0xDFFF))
            return kInvalid;
        return {value, 3};
    }
    if (text.size() < 4 || !continues(1) || !continues(2) || !continues(3))
        return kInvalid;
    const std::uint32_t value =
        ((lead & 0x07u) << 18) | ((byte(1) & 0x3Fu) << 12) | ((byte(2) & 0x3Fu) << 6) | (byte(3) & 0x3Fu);
    if (value < 0x10000 || value > 0x10FFFF)
        return kInvalid;
    return {value, 4};
}

// Appends the UTF-8 form of a code point.
template <class String>
void append_utf8(String& out, std::uint32_t code_point) {
    const auto add = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
    if (code_point < 0x80) {
        add(code_point);
    } else if (code_point < 0x800) {
        add(0xC0u | (code_point >> 6));
        add(0x80u | (code_point & 0x3Fu));
    } else if (code_point < 0x10000) {
        add(0xE0u | (code_point >> 12));
        add(0x80u | ((code_point >> 6) & 0x3Fu));
        add(0x80u | (code_point & 0x3Fu));
    } else {
        add(0xF0u | (code_point >> 18));
        add(0x80u | ((code_point >> 12) & 0x3Fu));
        add(0x80u | ((code_point >> 6) & 0x3Fu));
        add(0x80u | (code_point & 0x3Fu));
    }
}

} // namespace trireme::data
