// Cuts text as the regular expressions of Llama 3 and Qwen 2.5 do, which differ in how many digits a piece of
// numbers may have (3 and 1):
//
//     (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
//     \s*[\r\n]+|\s+(?!\S)|\s+
//
// Example: "I'LL\tgo! \n x 1234" -> "I", "'LL", "\tgo", "!", " \n", " x", " ", "123", "4".
#pragma once

#include <cstddef>
#include <string_view>

#include "data/unicode_table.hpp"

namespace trireme::data {

template <int kMostDigits>
class CaseBlindPreTokenizer {
  public:
    explicit CaseBlindPreTokenizer(std::string_view text) : text_(text), classes_(character_classes()) {}

    // The next piece, empty at the end of the text.
    std::string_view next() {
        const std::size_t start = position_;
        if (start == text_.size())
            return {};
        if (text_[start] == '\'')
            if (const std::size_t bytes = contraction_bytes(start))
                return take(start + bytes);
        const Character first = classify(start);
        const std::size_t second_at = start + first.bytes;
        if (first.kind == CharacterClass::letter)
            return take(end_of_run(second_at, CharacterClass::letter));
        if (first.kind == CharacterClass::number) {
            std::size_t end = second_at;
            for (int digits = 1; digits < kMostDigits && end < text_.size(); ++digits) {
                const Character digit = classify(end);
                if (digit.kind != CharacterClass::number)
                    break;
                end += digit.bytes;
            }
            return take(end);
        }
        if (!is_line_end(start) && second_at < text_.size()) {
            const Character second = classify(second_at);
            if (second.kind == CharacterClass::letter)
                return take(end_of_run(second_at + second.bytes, CharacterClass::letter));
            if (text_[start] == ' ' && second.kind == CharacterClass::other)
                return take(end_of_line_ends(end_of_run(second_at + second.bytes, CharacterClass::other)));
        }
        if (first.kind == CharacterClass::other)
            return take(end_of_line_ends(end_of_run(second_at, CharacterClass::other)));
        return take(end_of_spaces(start));
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

    bool is_line_end(std::size_t at) const { return text_[at] == '\r' || text_[at] == '\n'; }

    std::size_t end_of_run(std::size_t at, CharacterClass kind) const {
        while (at < text_.size()) {
            const Character character = classify(at);
            if (character.kind != kind)
                break;
            at += character.bytes;
        }
        return at;
    }

    std::size_t end_of_line_ends(std::size_t at) const {
        while (at < text_.size() && is_line_end(at))
            ++at;
        return at;
    }

    // A run of spaces: up to its last line end if it has one, else without its last character if other text
    // follows, unless it is that one alone.
    std::size_t end_of_spaces(std::size_t start) const {
        std::size_t at = start, last = start, after_line_end = start;
        while (at < text_.size()) {
            const Character character = classify(at);
            if (character.kind != CharacterClass::space)
                break;
            last = at;
            at += character.bytes;
            if (is_line_end(last))
                after_line_end = at;
        }
        if (after_line_end > start)
            return after_line_end;
        return at == text_.size() || last == start ? at : last;
    }

    // 0: no contraction here. Of the letters only s has another form beyond ASCII: the long s.
    std::size_t contraction_bytes(std::size_t at) const {
        const std::string_view rest = text_.substr(at + 1, 2);
        if (rest.empty())
            return 0;
        const auto small = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
        const char first = small(rest[0]), second = rest.size() > 1 ? small(rest[1]) : '\0';
        if (first == 's' || first == 't' || first == 'm' || first == 'd')
            return 2;
        if (rest == "\u017F")
            return 3;
        return (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                       (first == 'l' && second == 'l')
                   ? 3
                   : 0;
    }

    std::string_view text_;
    const CharacterClass* classes_;
    std::size_t position_ = 0;
};

} // namespace trireme::data
