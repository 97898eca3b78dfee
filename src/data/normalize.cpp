// Decompose, order the marks, compose: the steps of the Unicode Standard, Annex 15. A text is worked on in
// stretches of some thousand characters, so that memory does not grow with it: a character that is no mark
// and that no composition takes as its second one has nothing to do with what comes before it.
#include "data/normalize.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "data/unicode_table.hpp"
#include "trireme/base/error.hpp"

namespace trireme::data {
namespace {

// Hangul syllables are numbered: S = kSyllables + (lead * 21 + vowel) * 28 + trail.
constexpr std::uint32_t kLeads = 0x1100, kVowels = 0x1161, kTrails = 0x11A7, kSyllables = 0xAC00;
constexpr std::uint32_t kLeadCount = 19, kVowelCount = 21, kTrailCount = 28;
constexpr std::uint32_t kSyllableCount = kLeadCount * kVowelCount * kTrailCount;
constexpr std::uint32_t kInvalidByte = 0x80000000u; // plus the byte

constexpr std::size_t kShortestStretch = 4096;
constexpr std::size_t kLongestStretch = std::size_t{1} << 22;

struct Marked {
    std::uint32_t code_point;
    std::uint8_t combining;
};

struct Tables {
    std::unordered_map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> decomposition;
    std::unordered_map<std::uint64_t, std::uint32_t> composition;
    std::unordered_set<std::uint32_t> seconds; // of compositions, Hangul apart
    std::unordered_map<std::uint32_t, std::uint8_t> combining;

    Tables() {
        for (const CanonicalMapping& mapping : kCanonicalMappings) {
            decomposition.emplace(mapping.from, std::pair(mapping.first, mapping.second));
            if (mapping.composes) {
                composition.emplace((std::uint64_t{mapping.first} << 32) | mapping.second, mapping.from);
                seconds.insert(mapping.second);
            }
        }
        for (const CombiningClasses& range : kCombiningClasses)
            for (std::uint32_t code_point = range.begin; code_point <= range.last; ++code_point)
                combining.emplace(code_point, range.value);
    }
};

const Tables& tables() {
    static const Tables made;
    return made;
}

std::uint8_t combining_of(std::uint32_t code_point) {
    const auto found = tables().combining.find(code_point);
    return found == tables().combining.end() ? 0 : found->second;
}

void decompose(std::uint32_t code_point, std::vector<Marked>& out) {
    if (code_point - kSyllables < kSyllableCount) {
        const std::uint32_t number = code_point - kSyllables;
        out.push_back({kLeads + number / (kVowelCount * kTrailCount), 0});
        out.push_back({kVowels + number / kTrailCount % kVowelCount, 0});
        if (number % kTrailCount != 0)
            out.push_back({kTrails + number % kTrailCount, 0});
        return;
    }
    const auto found = tables().decomposition.find(code_point);
    if (found == tables().decomposition.end()) {
        out.push_back({code_point, combining_of(code_point)});
        return;
    }
    decompose(found->second.first, out);
    if (found->second.second != 0)
        decompose(found->second.second, out);
}

// 0: the two do not compose.
std::uint32_t compose(std::uint32_t first, std::uint32_t second) {
    if (first - kLeads < kLeadCount && second - kVowels < kVowelCount)
        return kSyllables + ((first - kLeads) * kVowelCount + (second - kVowels)) * kTrailCount;
    if (first - kSyllables < kSyllableCount && (first - kSyllables) % kTrailCount == 0 && second > kTrails &&
        second - kTrails < kTrailCount)
        return first + (second - kTrails);
    const auto found = tables().composition.find((std::uint64_t{first} << 32) | second);
    return found == tables().composition.end() ? 0 : found->second;
}

// In place: `stretch` becomes its composed form.
void compose_all(std::vector<Marked>& stretch) {
    std::size_t kept = 0;
    std::size_t starter = stretch.size(); // of the character that marks may join; none yet
    int last_class = -1;                  // of the last mark kept after the starter
    for (std::size_t at = 0; at < stretch.size(); ++at) {
        const Marked mark = stretch[at];
        if (starter < stretch.size() && last_class < static_cast<int>(mark.combining)) {
            if (const std::uint32_t both = compose(stretch[starter].code_point, mark.code_point)) {
                stretch[starter].code_point = both;
                continue;
            }
        }
        if (mark.combining == 0) {
            starter = kept;
            last_class = -1;
        } else {
            last_class = mark.combining;
        }
        stretch[kept++] = mark;
    }
    stretch.resize(kept);
}

bool begins_anew(const Marked& mark) {
    return mark.combining == 0 && mark.code_point - kVowels >= kVowelCount &&
           mark.code_point - kTrails >= kTrailCount && !tables().seconds.contains(mark.code_point);
}

void order_marks(std::vector<Marked>& stretch) {
    for (std::size_t begin = 0; begin < stretch.size(); ++begin) {
        if (stretch[begin].combining == 0)
            continue;
        std::size_t end = begin;
        while (end < stretch.size() && stretch[end].combining != 0)
            ++end;
        std::stable_sort(stretch.begin() + static_cast<std::ptrdiff_t>(begin),
                         stretch.begin() + static_cast<std::ptrdiff_t>(end),
                         [](const Marked& a, const Marked& b) { return a.combining < b.combining; });
        begin = end - 1;
    }
}

// Appends the normal form of a stretch, which is used up.
void finish(std::vector<Marked>& stretch, std::string& normal) {
    order_marks(stretch);
    compose_all(stretch);
    for (const Marked& mark : stretch) {
        if (mark.code_point >= kInvalidByte)
            normal.push_back(static_cast<char>(mark.code_point & 0xFF));
        else
            append_utf8(normal, mark.code_point);
    }
    stretch.clear();
}

} // namespace

bool is_surely_nfc(std::string_view text) {
    for (const char character : text)
        if (static_cast<unsigned char>(character) >= 0xCC) // leads U+0300 and above
            return false;
    return true;
}

void normalize_nfc(std::string_view text, std::string& normal) {
    normal.clear();
    std::vector<Marked> stretch, character;
    for (std::size_t at = 0; at < text.size();) {
        const DecodedCharacter decoded = decode_utf8(text.substr(at));
        character.clear();
        if (decoded.code_point > 0x10FFFF)
            character.push_back({kInvalidByte | static_cast<unsigned char>(text[at]), 0});
        else
            decompose(decoded.code_point, character);
        at += decoded.bytes;
        if (stretch.size() >= kShortestStretch && begins_anew(character.front()))
            finish(stretch, normal);
        if (stretch.size() >= kLongestStretch)
            throw Error(ErrorCategory::data,
                        concat("a character with more than ", kLongestStretch, " marks"));
        stretch.insert(stretch.end(), character.begin(), character.end());
    }
    finish(stretch, normal);
}

} // namespace trireme::data
