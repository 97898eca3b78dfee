// Cuts text into the pieces that BPE works on, as GPT-2's regular expression does, in one pass without an
// engine:
//
//     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// Concatenating the pieces gives the text. Example: "I'll  go" -> "I", "'ll", " ", " go".
#pragma once

#include <cstddef>
#include <string_view>

#include "data/unicode_table.hpp"

namespace trireme::data {

class Gpt2PreTokenizer {
  public:
    explicit Gpt2PreTokenizer(std::string_view text) : text_(text), classes_(character_classes()) {}

    // The next piece, empty at the end of the text.
    std::string_view next() {
        const std::size_t start = position_;
        if (start == text_.size())
            return {};
        std::size_t end = start;
        const char first = text_[start];
        if (first == '\'' && (end = start + contraction_bytes(start)) != start)
            return take(end);
        Character character = classify(start);
        if (first == ' ' && start + 1 < text_.size()) {
            const Character second = classify(start + 1);
            if (second.kind != CharacterClass::space) {
                end = start + 1;
                character = second;
            }
        }
        if (character.kind != CharacterClass::space)
            return take(end_of_run(end + character.bytes, character.kind));
        return take(end_of_spaces(start + character.bytes, start));
    }

  private:
    std::string_view take(std::size_t end) {
        const std::string_view piece = text_.substr(position_, end - position_);
        position_ = end;
        return piece;
    }

    Character classify(std::size_t at) const {
        const unsigned char byte = static_cast<unsigned char>(text_[at]);
        if (byte < 0x80) [[likely]]
            return {classes_[byte], 1};
        const DecodedCharacter decoded = decode_utf8(text_.substr(at));
        return {decoded.code_point > 0x10FFFF ? CharacterClass::other : classes_[decoded.code_point],
                decoded.bytes};
    }

    std::size_t end_of_run(std::size_t at, CharacterClass kind) const {
        while (at < text_.size()) {
            const Character character = classify(at);
            if (character.kind != kind)
                break;
            at += character.bytes;
        }
        return at;
    }

    // Spaces up to the last one before other text, which that text may want; a single one is a piece of its
    // own.
    std::size_t end_of_spaces(std::size_t at, std::size_t last) const {
        const std::size_t start = last;
        while (at < text_.size()) {
            const Character character = classify(at);
            if (character.kind != CharacterClass::space)
                return last == start ? at : last;
            last = at;
            at += character.bytes;
        }
        return at;
    }

    // 0: no contraction here.
    std::size_t contraction_bytes(std::size_t at) const {
        const std::string_view rest = text_.substr(at + 1, 2);
        if (rest.empty())
            return 0;
        if (rest[0] == 's' || rest[0] == 't' || rest[0] == 'm' || rest[0] == 'd')
            return 2;
        return rest == "re" || rest == "ve" || rest == "ll" ? 3 : 0;
    }

    std::string_view text_;
    const CharacterClass* classes_;
    std::size_t position_ = 0;
};

} // namespace trireme::data
