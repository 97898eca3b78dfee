// trireme-data collect: the text that a machine already has (documentation, licences, changelogs), as JSONL
// to learn from.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <simdjson.h>
#include <unordered_set>

// Inlined, so that nothing has to be linked; scalar, since g++ 12 warns about its AVX-512 intrinsics.
#define XXH_INLINE_ALL
#define XXH_VECTOR 0
#include <xxhash.h>

#include "commands.hpp"
#include "trireme/base/error.hpp"
#include "trireme/base/file.hpp"
#include "trireme/base/json.hpp"
#include "trireme/base/output_file.hpp"
#include "trireme/base/sizes.hpp"
#include "trireme/data/text_source.hpp"

namespace trireme::data_tools {

namespace fs = std::filesystem;
namespace po = boost::program_options;

namespace {

constexpr std::size_t kLargestText = std::size_t{1}
                                     << 20; // larger files are mostly data, and one would fill a small corpus

struct Counts {
    std::int64_t documents = 0, duplicates = 0, not_text = 0, too_large = 0, unreadable = 0, text_bytes = 0;
};

// Regular files below `root`, or itself; links are not followed.
std::vector<fs::path> files_below(const std::string& root) {
    std::error_code error;
    if (fs::is_regular_file(root, error))
        return {root};
    if (!fs::is_directory(root, error))
        throw Error(ErrorCategory::data, concat("there is no directory ", root));
    std::vector<fs::path> files;
    fs::recursive_directory_iterator walk(root, fs::directory_options::skip_permission_denied, error), end;
    for (; !error && walk != end; walk.increment(error)) {
        std::error_code ignored;
        if (!walk->is_symlink(ignored) && walk->is_regular_file(ignored))
            files.push_back(walk->path());
    }
    return files;
}

// In the order of the hash of their names: the same on every run, and a part of the files, as a split takes
// it, is as mixed as the whole.
std::vector<fs::path> mixed(const std::vector<fs::path>& files) {
    std::vector<std::pair<std::uint64_t, std::string>> keyed;
    for (const fs::path& path : files)
        keyed.emplace_back(XXH3_64bits(path.native().data(), path.native().size()), path.native());
    std::sort(keyed.begin(), keyed.end());
    keyed.erase(std::unique(keyed.begin(), keyed.end()), keyed.end());
    std::vector<fs::path> order;
    for (const auto& [hash, path] : keyed)
        order.emplace_back(path);
    return order;
}

bool is_text(const std::string& content) {
    return content.find('\0') == std::string::npos && simdjson::validate_utf8(content) &&
           content.find_first_not_of(" \t\r\n") != std::string::npos;
}

// False when the file is no text of a fitting size.
bool read_text(const fs::path& path, std::string& content, Counts& counts) {
    try {
        content.clear();
        data::TextSource source(path.string());
        for (std::string bytes; content.size() <= kLargestText && source.next_bytes(bytes);)
            content += bytes;
    } catch (const Error&) { // no permission, or compressed data that are damaged: one file less
        ++counts.unreadable;
        return false;
    }
    if (content.size() > kLargestText) {
        ++counts.too_large;
        return false;
    }
    if (!is_text(content)) {
        ++counts.not_text;
        return false;
    }
    return true;
}

} // namespace

int collect(const Arguments& arguments) {
    po::options_description options("Options");
    options.add_options()("input", po::value<std::vector<std::string>>()->multitoken()->required(),
                          "directories or files (also without the name)");
    options.add_options()("output", po::value<std::string>()->required(),
                          "JSONL file to write: {\"text\": ...} a line");
    options.add_options()("max-bytes", po::value<std::int64_t>()->default_value(std::int64_t{1} << 40),
                          "stop at this much text");
    const auto given =
        parse_arguments(arguments, "collect DIRECTORY... --output FILE [--max-bytes N]", options, "input");
    if (!given)
        return 0;
    const std::int64_t max_bytes = (*given)["max-bytes"].as<std::int64_t>();
    if (max_bytes < 1)
        throw Error(ErrorCategory::usage, concat("--max-bytes ", max_bytes, " is not positive"));

    struct HashOfHash {
        std::size_t operator()(const std::pair<std::uint64_t, std::uint64_t>& hash) const {
            return hash.first;
        }
    };
    std::unordered_set<std::pair<std::uint64_t, std::uint64_t>, HashOfHash> seen;
    Counts counts;
    std::vector<fs::path> files;
    for (const std::string& root : (*given)["input"].as<std::vector<std::string>>())
        for (fs::path& path : files_below(root))
            files.push_back(std::move(path));
    OutputFile output((*given)["output"].as<std::string>());
    ProgressLine line;
    std::string content, record;
    for (const fs::path& path : mixed(files)) {
        if (counts.text_bytes >= max_bytes)
            break;
        if (!read_text(path, content, counts))
            continue;
        const XXH128_hash_t hash = XXH3_128bits(content.data(), content.size());
        if (!seen.emplace(hash.low64, hash.high64).second) {
            ++counts.duplicates;
            continue;
        }
        record = "{\"text\": ";
        record += json_string(content);
        output.write(record += "}\n");
        ++counts.documents;
        counts.text_bytes += static_cast<std::int64_t>(content.size());
        line.update([&] { return concat(counts.documents, " documents, ", show_bytes(counts.text_bytes)); });
    }
    if (counts.documents == 0)
        throw Error(ErrorCategory::data, "no text found",
                    {concat(counts.not_text, " files are not UTF-8 text, ", counts.too_large, " too large, ",
                            counts.unreadable, " unreadable")});
    output.sync();
    output.publish();
    sync_directory(directory_of(output.path()));
    std::cout << "collected " << counts.documents << " documents, " << show_bytes(counts.text_bytes)
              << "; left out: " << counts.duplicates << " duplicates, " << counts.not_text
              << " not UTF-8 text, " << counts.too_large << " larger than "
              << show_bytes(static_cast<std::int64_t>(kLargestText)) << ", " << counts.unreadable
              << " unreadable\n";
    return 0;
}

} // namespace trireme::data_tools
