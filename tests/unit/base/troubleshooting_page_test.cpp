// docs/troubleshooting.md has a row for every error that the sources throw, and none that they do not. The
// text of an error is what stands in quotes in its first line, `...` for what is filled in; blanks do not
// count. Left out: usage errors, which name options, values and cure themselves, our own bugs, and texts that
// are made elsewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "trireme/base/error.hpp"
#include "trireme/base/file.hpp"

namespace trireme {
namespace {

const char* const kPage = "docs/troubleshooting.md"; // tests run in the root of the source tree

std::string without_blanks(const std::string& text) {
    std::string rest;
    std::ranges::copy_if(text, std::back_inserter(rest), [](unsigned char c) { return !std::isspace(c); });
    return rest;
}

bool has_letters(const std::string& text) {
    return std::ranges::count_if(text, [](unsigned char c) { return std::isalpha(c); }) > 1;
}

using Key = std::vector<std::string>;

// The quoted parts of the argument that begins at `at`: concat("no room for ", x, " in ") has "noroomfor",
// "in".
Key key_at(const std::string& source, std::size_t at) {
    Key key;
    for (int depth = 0; at < source.size(); ++at) {
        const char c = source[at];
        if (c == '"') {
            std::string literal;
            for (++at; source[at] != '"'; ++at)
                literal += source[at] == '\\' ? source[++at] : source[at];
            if (has_letters(literal))
                key.push_back(without_blanks(literal));
        } else if (c == '(' || c == '{' || c == '[') {
            ++depth;
        } else if (c == ')' || c == '}' || c == ']') {
            if (depth-- == 0)
                break;
        } else if (c == ',' && depth == 0) {
            break;
        }
    }
    return key;
}

bool holds(const std::string& message, const Key& key) {
    std::size_t at = 0;
    for (const std::string& part : key) {
        at = message.find(part, at);
        if (at == std::string::npos)
            return false;
        at += part.size();
    }
    return true;
}

// Keys, and where they are thrown.
std::map<Key, std::string> thrown() {
    std::map<Key, std::string> keys;
    const std::regex error(R"(Error(?:\s+\w+)?[({]\s*ErrorCategory::(\w+),)");
    for (const char* root : {"src", "data_tools"})
        for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
            if (!std::set<std::string>{".cpp", ".hpp", ".cu", ".cuh"}.contains(entry.path().extension()))
                continue;
            const std::string source = read_file(entry.path(), ErrorCategory::data);
            for (std::sregex_iterator match(source.begin(), source.end(), error), end; match != end;
                 ++match) {
                const std::string category = (*match)[1];
                const auto after = static_cast<std::size_t>(match->position() + match->length());
                const Key key = key_at(source, after);
                if (category == "usage" || category == "internal" || key.empty())
                    continue;
                keys[key] = concat(entry.path().string(), ":",
                                   1 + std::count(source.begin(), source.begin() + match->position(), '\n'));
            }
        }
    return keys;
}

// The messages of the page: what stands in backticks at the start of a table's row, below "## Messages".
std::set<std::string> explained() {
    const std::string page = read_file(kPage, ErrorCategory::data);
    const std::size_t begin = page.find("\n## Messages\n"), end = page.find("\n## ", begin + 1);
    EXPECT_NE(begin, std::string::npos);
    const std::string part = page.substr(begin, end - begin);
    std::set<std::string> messages;
    const std::regex row(R"(\n\| `([^`]*)` \| [^|]+ \| [^|]+ \|)"); // with a cause and a cure
    for (std::sregex_iterator match(part.begin(), part.end(), row), last; match != last; ++match)
        messages.insert(without_blanks((*match)[1]));
    return messages;
}

TEST(TroubleshootingPage, ExplainsEveryError) {
    const std::set<std::string> messages = explained();
    for (const auto& [key, place] : thrown())
        EXPECT_TRUE(std::ranges::any_of(messages, [&](const std::string& m) { return holds(m, key); }))
            << kPage << " has no row below \"## Messages\" for the error thrown at " << place << ": "
            << testing::PrintToString(key);
}

TEST(TroubleshootingPage, ExplainsNothingThatIsGone) {
    const auto keys = thrown();
    for (const std::string& message : explained())
        EXPECT_TRUE(std::ranges::any_of(keys, [&](const auto& key) { return holds(message, key.first); }))
            << kPage << ": nothing throws `" << message << "` any more";
}

TEST(TroubleshootingPage, KnowsTheUsualTroubles) {
    const std::string page = read_file(kPage, ErrorCategory::data);
    for (const char* symptom : {"NCCL does not initialise", "NET/IB: completion with error 12", "Very slow",
                                "Out of GPU memory", "Nodes wait for a rank", "A checkpoint is not written",
                                "GPUs less than half busy", "Speed collapses with a second node"})
        EXPECT_NE(page.find(concat("| ", symptom, " |")), std::string::npos) << symptom;
}

} // namespace
} // namespace trireme
