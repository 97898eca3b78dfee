// The flat table behind character_classes(): 1.1 MB, of which ordinary text touches a few pages.
#include <vector>

#include "data/unicode_table.hpp"
#include "trireme/data/tokenizer.hpp"

namespace trireme::data {

const CharacterClass* character_classes() {
    static const std::vector<CharacterClass> classes = [] {
        std::vector<CharacterClass> table(0x110000, CharacterClass::other);
        const auto fill = [&](std::span<const CodePointRange> ranges, CharacterClass kind) {
            for (const CodePointRange& range : ranges)
                for (std::uint32_t code_point = range.first; code_point <= range.last; ++code_point)
                    table[code_point] = kind;
        };
        fill(kLetterRanges, CharacterClass::letter);
        fill(kNumberRanges, CharacterClass::number);
        fill(kSpaceRanges, CharacterClass::space);
        return table;
    }();
    return classes.data();
}

std::string_view unicode_version() {
    return kUnicodeVersion;
}

} // namespace trireme::data
