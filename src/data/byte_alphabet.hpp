// How GPT-2's files spell bytes: each of the 256 byte values is one printable character, so that a token is a
// JSON string and a merge two words. The 188 printable bytes of Latin-1 stand for themselves, in ascending
// order the ids 0 to 187; the other 68 are U+0100, U+0101, ... in ascending order (a space is U+0120, "Ġ"),
// the ids 188 to 255.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "data/unicode_table.hpp"

namespace trireme::data {

struct ByteAlphabet {
    std::array<std::uint32_t, 256> code_point_of_byte{};
    std::array<std::uint8_t, 256>
        byte_in_order{}; // the byte whose token comes first, second, ... in a fresh vocabulary
};

constexpr ByteAlphabet make_byte_alphabet() {
    const auto stands_for_itself = [](unsigned byte) {
        return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    };
    ByteAlphabet alphabet;
    std::size_t order = 0;
    for (unsigned byte = 0; byte < 256; ++byte)
        if (stands_for_itself(byte)) {
            alphabet.code_point_of_byte[byte] = byte;
            alphabet.byte_in_order[order++] = static_cast<std::uint8_t>(byte);
        }
    std::uint32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte)
        if (!stands_for_itself(byte)) {
            alphabet.code_point_of_byte[byte] = next++;
            alphabet.byte_in_order[order++] = static_cast<std::uint8_t>(byte);
        }
    return alphabet;
}

inline constexpr ByteAlphabet kByteAlphabet = make_byte_alphabet();

// "Ġt" for " t".
inline std::string spell_bytes(std::string_view bytes) {
    std::string spelt;
    for (const char byte : bytes)
        append_utf8(spelt, kByteAlphabet.code_point_of_byte[static_cast<unsigned char>(byte)]);
    return spelt;
}

// " t" for "Ġt"; nothing when a character stands for no byte.
inline std::optional<std::string> bytes_of_spelling(std::string_view spelt) {
    std::string bytes;
    while (!spelt.empty()) {
        const DecodedCharacter character = decode_utf8(spelt);
        spelt.remove_prefix(character.bytes);
        bool found = false;
        for (unsigned byte = 0; byte < 256 && !found; ++byte)
            if (kByteAlphabet.code_point_of_byte[byte] == character.code_point) {
                bytes.push_back(static_cast<char>(byte));
                found = true;
            }
        if (!found)
            return std::nullopt;
    }
    return bytes;
}

} // namespace trireme::data
