// vocab.json is one object, token to id; merges.txt has a header line (which may be missing) and one merge a
// line, in the order of their ranks. Line ends may be CRLF and the last one may be missing: the ids are the
// same.
#include "data/bpe_vocabulary.hpp"

#include <limits>
#include <optional>
#include <simdjson.h>
#include <string_view>
#include <unordered_map>

#include "data/byte_alphabet.hpp"
#include "trireme/base/error.hpp"
#include "trireme/base/file.hpp"

namespace trireme::data {
namespace {

constexpr std::string_view kCure =
    "try: --vocab-file and --merge-file with the vocab.json and merges.txt of one tokenizer";

using IdOfToken = std::unordered_map<std::string, std::int32_t>;

constexpr std::int64_t kLargestId = 1
                                    << 24; // 16.8 million tokens: beyond is a damaged file, not a vocabulary

[[noreturn]] void refuse_file(const std::string& what) {
    throw Error(ErrorCategory::data, what, {std::string(kCure)});
}

IdOfToken read_vocab(const std::filesystem::path& path) {
    const std::string text = read_file(path, ErrorCategory::data, {std::string(kCure)});
    simdjson::dom::parser parser;
    simdjson::dom::element root;
    if (const auto error = parser.parse(text).get(root))
        refuse_file(concat(path.string(), " is not JSON: ", simdjson::error_message(error)));
    simdjson::dom::object object;
    if (root.get(object))
        refuse_file(concat(path.string(), " is not a vocabulary: one object {token: id} is needed"));
    IdOfToken ids;
    std::unordered_map<std::int64_t, std::string> token_of_id;
    for (const auto& [token, value] : object) {
        std::int64_t id = 0;
        if (value.get(id) || id < 0 || id > kLargestId)
            refuse_file(concat(path.string(), ": the id of token \"", token, "\" is not an integer in [0, ",
                               kLargestId, "]"));
        const auto [other, is_new] = token_of_id.emplace(id, token);
        if (!is_new)
            refuse_file(concat(path.string(), ": id ", id, " belongs to two tokens, \"", other->second,
                               "\" and \"", token, "\""));
        if (!ids.emplace(token, static_cast<std::int32_t>(id)).second)
            refuse_file(concat(path.string(), ": token \"", token, "\" occurs twice"));
    }
    return ids;
}

class MergesReader {
  public:
    MergesReader(const std::filesystem::path& path, const IdOfToken& ids, const BpeVocabulary& files)
        : path_(path), ids_(ids), made_(files.bytes_of_id.size(), false) {
        for (const std::int32_t id : files.byte_ids)
            made_[static_cast<std::size_t>(id)] = true;
    }

    std::vector<Merge> read() {
        const std::string text = read_file(path_, ErrorCategory::data, {std::string(kCure)});
        std::string_view rest = text;
        while (!rest.empty()) {
            const std::size_t end = rest.find('\n');
            std::string_view line = rest.substr(0, end);
            rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
            ++line_number_;
            if (line.ends_with('\r'))
                line.remove_suffix(1);
            const bool header = line_number_ == 1 && line.starts_with("#version");
            if (!header && !line.empty())
                add(line);
        }
        return std::move(merges_);
    }

  private:
    [[noreturn]] void refuse(const std::string& why) const {
        refuse_file(concat(path_.string(), ":", line_number_, ": ", why));
    }

    void add(std::string_view line) {
        const std::size_t space = line.find(' ');
        if (space == std::string_view::npos || space == 0 || space + 1 == line.size() ||
            line.find(' ', space + 1) != std::string_view::npos)
            refuse(
                concat("\"", line, "\" is not a merge: two tokens with one space between them are needed"));
        const std::string left(line.substr(0, space)), right(line.substr(space + 1));
        const Merge merge = {part(left), part(right), id_of(left + right)};
        if (!made_pairs_
                 .emplace((static_cast<std::uint64_t>(merge.left) << 32) |
                              static_cast<std::uint64_t>(merge.right),
                          line_number_)
                 .second)
            refuse(concat("the merge \"", line, "\" stands in an earlier line as well"));
        made_[static_cast<std::size_t>(merge.result)] = true;
        merges_.push_back(merge);
    }

    std::int32_t id_of(const std::string& token) const {
        const auto found = ids_.find(token);
        if (found == ids_.end())
            refuse(concat("token \"", token,
                          "\" is not in the vocabulary: do vocabulary and merges belong together?"));
        return found->second;
    }

    std::int32_t part(const std::string& token) const {
        const std::int32_t id = id_of(token);
        if (!made_[static_cast<std::size_t>(id)])
            refuse(concat("token \"", token,
                          "\" is used before any line makes it: are lines missing or out of order?"));
        return id;
    }

    std::filesystem::path path_;
    const IdOfToken& ids_;
    std::vector<bool> made_;
    std::unordered_map<std::uint64_t, std::int64_t> made_pairs_;
    std::vector<Merge> merges_;
    std::int64_t line_number_ = 0;
};

} // namespace

BpeVocabulary read_gpt2_files(const std::filesystem::path& vocab_json,
                              const std::filesystem::path& merges_txt) {
    const IdOfToken ids = read_vocab(vocab_json);
    BpeVocabulary files;
    std::int32_t largest = -1;
    for (const auto& [token, id] : ids)
        largest = std::max(largest, id);
    files.bytes_of_id.resize(static_cast<std::size_t>(largest + 1));
    files.has_token.resize(static_cast<std::size_t>(largest + 1), false);
    for (const auto& [token, id] : ids) {
        const std::size_t index = static_cast<std::size_t>(id);
        files.has_token[index] = true;
        // A token with other characters is no merge of bytes (an added one): it stands for its own text.
        files.bytes_of_id[index] = bytes_of_spelling(token).value_or(token);
    }
    for (unsigned byte = 0; byte < 256; ++byte) {
        const std::string spelling = spell_bytes(std::string(1, static_cast<char>(byte)));
        const auto found = ids.find(spelling);
        if (found == ids.end())
            refuse_file(concat(vocab_json.string(), ": the token \"", spelling, "\" of byte ", byte,
                               " is missing: this is no byte-level BPE vocabulary"));
        files.byte_ids[byte] = found->second;
    }
    const auto end_of_text = ids.find(kEndOfText);
    if (end_of_text == ids.end())
        refuse_file(concat(vocab_json.string(), ": the token ", kEndOfText, " is missing"));
    files.end_of_text = end_of_text->second;
    files.special = {{kEndOfText, files.end_of_text}};
    files.merges = MergesReader(merges_txt, ids, files).read();
    files.fingerprint = hash_bytes(read_file(merges_txt, ErrorCategory::data),
                                   hash_bytes(read_file(vocab_json, ErrorCategory::data)));
    return files;
}

} // namespace trireme::data
