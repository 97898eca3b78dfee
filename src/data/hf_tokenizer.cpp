// Reads the tokenizer.json of Hugging Face's `tokenizers` as far as it describes byte-level BPE, and refuses
// by name whatever else it asks for: a rule that is left out would change ids without a word.
#include <limits>
#include <simdjson.h>
#include <string_view>
#include <unordered_map>

#include "data/bpe_vocabulary.hpp"
#include "data/byte_alphabet.hpp"
#include "trireme/base/error.hpp"
#include "trireme/base/file.hpp"

namespace trireme::data {
namespace {

using simdjson::dom::element;

constexpr std::int64_t kLargestId = 1 << 24; // as in gpt2_files.cpp

constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// What ends a document, by the names that the families use. The file itself does not say.
constexpr std::string_view kEndNames[] = {kEndOfText, "<|end_of_text|>", "</s>", "<eos>"};

class Reader {
  public:
    explicit Reader(const std::filesystem::path& path)
        : path_(path), text_(read_file(path, ErrorCategory::data)) {}

    BpeVocabulary read() {
        element root;
        if (const auto error = parser_.parse(text_).get(root))
            refuse(concat("not JSON: ", simdjson::error_message(error)));
        if (!root.is_object())
            refuse("one object is needed");
        const element model = member(root, "model");
        if (model.is_null())
            refuse("there is no \"model\"");
        if (const std::string type = text_of(model, "type"); type != "BPE" && !type.empty())
            refuse(concat("model ", type, " is not supported: byte-level BPE is"));
        for (const char* name : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"})
            if (const element value = member(model, name); !value.is_null() && text_of(model, name) != "")
                refuse(concat("model.", name, " is not supported"));
            else if (value.is_number())
                refuse(concat("model.", name, " is not supported"));
        if (is_true(model, "byte_fallback"))
            refuse("model.byte_fallback is not supported");
        files_.whole_pieces =
            is_true(model, "ignore_merges") ? WholePieces::go_first : WholePieces::are_merged;
        read_normalizer(member(root, "normalizer"));
        read_pre_tokenizer(member(root, "pre_tokenizer"));
        read_vocabulary(member(model, "vocab"));
        read_added(member(root, "added_tokens"));
        fill_ids();
        read_merges(member(model, "merges"));
        files_.fingerprint = hash_bytes(text_);
        return std::move(files_);
    }

  private:
    [[noreturn]] void refuse(const std::string& why) const {
        throw Error(ErrorCategory::data, concat(path_.string(), ": ", why),
                    {"supported: byte-level BPE with the pre-tokenizer of GPT-2, Llama 3 or Qwen 2.5"});
    }

    // Null where there is none.
    static element member(const element& of, std::string_view name) {
        static const element null = [] {
            static simdjson::dom::parser parser;
            return parser.parse(std::string_view("null")).value();
        }();
        element found;
        return of.is_object() && !of.at_key(name).get(found) ? found : null;
    }
    static std::string text_of(const element& of, std::string_view name) {
        std::string_view text;
        return member(of, name).get(text) ? std::string() : std::string(text);
    }
    static bool is_true(const element& of, std::string_view name) {
        bool value = false;
        return !member(of, name).get(value) && value;
    }

    void read_normalizer(const element& normalizer) {
        if (normalizer.is_null())
            return;
        if (text_of(normalizer, "type") != "NFC")
            refuse(concat("normalizer ", text_of(normalizer, "type"), " is not supported: none and NFC are"));
        files_.normalization = Normalization::nfc;
    }

    void read_byte_level(const element& step, bool cuts) {
        if (text_of(step, "type") != "ByteLevel")
            refuse(concat("pre-tokenizer ", text_of(step, "type"), " is not supported"));
        if (is_true(step, "add_prefix_space"))
            refuse("the pre-tokenizer's add_prefix_space is not supported");
        bool regex = true; // where it is not said
        if (member(step, "use_regex").get(regex))
            regex = true;
        if (regex != cuts)
            refuse(cuts ? "a pre-tokenizer that does not cut the text is not supported"
                        : "a pre-tokenizer that cuts the text twice is not supported");
    }

    void read_pre_tokenizer(const element& pre_tokenizer) {
        if (text_of(pre_tokenizer, "type") != "Sequence") {
            read_byte_level(pre_tokenizer, true);
            files_.pieces = PieceRule::gpt2;
            return;
        }
        std::vector<element> steps;
        if (simdjson::dom::array list; !member(pre_tokenizer, "pretokenizers").get(list))
            for (const element step : list)
                steps.push_back(step);
        if (steps.size() != 2 || text_of(steps[0], "type") != "Split")
            refuse("only Split followed by ByteLevel is supported as a sequence of pre-tokenizers");
        if (text_of(steps[0], "behavior") != "Isolated" || is_true(steps[0], "invert"))
            refuse("the pre-tokenizer Split is supported with the behavior Isolated, not inverted");
        read_byte_level(steps[1], false);
        const std::string pattern = text_of(member(steps[0], "pattern"), "Regex");
        if (pattern == kLlama3)
            files_.pieces = PieceRule::llama3;
        else if (pattern == kQwen2)
            files_.pieces = PieceRule::qwen2;
        else if (pattern == kGpt2)
            files_.pieces = PieceRule::gpt2;
        else
            refuse(concat("the pre-tokenizer's pattern ", pattern, " is not supported"));
    }

    void add(std::string_view token, const element& value) {
        std::int64_t id = 0;
        if (value.get(id) || id < 0 || id > kLargestId)
            refuse(concat("the id of token \"", token, "\" is not an integer in [0, ", kLargestId, "]"));
        ids_.emplace(std::string(token), static_cast<std::int32_t>(id));
    }

    void read_vocabulary(const element& vocabulary) {
        simdjson::dom::object entries;
        if (vocabulary.get(entries))
            refuse("there is no \"model.vocab\"");
        for (const auto& [token, id] : entries)
            add(token, id);
    }

    void read_added(const element& added) {
        simdjson::dom::array list;
        if (added.get(list))
            return;
        for (const element token : list) {
            const std::string content = text_of(token, "content");
            if (content.empty())
                refuse("an added token has no content");
            for (const char* flag : {"single_word", "lstrip", "rstrip"})
                if (is_true(token, flag))
                    refuse(concat("added token \"", content, "\": ", flag, " is not supported"));
            const std::size_t before = ids_.size();
            const auto known = ids_.find(content);
            add(content, member(token, "id"));
            if (ids_.size() == before &&
                known->second != static_cast<std::int64_t>(member(token, "id").get_int64()))
                refuse(concat("added token \"", content, "\" has two ids"));
            files_.special.emplace_back(content, ids_.at(content));
        }
    }

    void fill_ids() {
        std::int32_t largest = -1;
        for (const auto& [token, id] : ids_)
            largest = std::max(largest, id);
        files_.bytes_of_id.resize(static_cast<std::size_t>(largest + 1));
        files_.has_token.resize(static_cast<std::size_t>(largest + 1), false);
        for (const auto& [token, id] : ids_) {
            const auto index = static_cast<std::size_t>(id);
            if (files_.has_token[index])
                refuse(concat("id ", id, " belongs to two tokens"));
            files_.has_token[index] = true;
            files_.bytes_of_id[index] = bytes_of_spelling(token).value_or(token);
        }
        for (const auto& [content, id] : files_.special)
            files_.bytes_of_id[static_cast<std::size_t>(id)] = content; // added tokens are plain text
        for (unsigned byte = 0; byte < 256; ++byte) {
            const auto found = ids_.find(spell_bytes(std::string(1, static_cast<char>(byte))));
            if (found == ids_.end())
                refuse(concat("the token of byte ", byte, " is missing: this is no byte-level vocabulary"));
            files_.byte_ids[byte] = found->second;
        }
        for (const std::string_view name : kEndNames)
            if (const auto found = ids_.find(std::string(name)); found != ids_.end()) {
                files_.end_of_text = found->second;
                return;
            }
        refuse(concat("no token ends a document: none is called ", kEndNames[0], ", ", kEndNames[1], ", ",
                      kEndNames[2], " or ", kEndNames[3]));
    }

    std::int32_t id_of(std::string_view token, std::int64_t line) const {
        const auto found = ids_.find(std::string(token));
        if (found == ids_.end())
            refuse(concat("merge ", line, ": token \"", token, "\" is not in the vocabulary"));
        return found->second;
    }

    // Written as "a b", or as ["a", "b"] since tokenizers 0.20.
    void read_merges(const element& merges) {
        simdjson::dom::array list;
        if (merges.get(list))
            refuse("there is no \"model.merges\"");
        std::int64_t line = 0;
        for (const element merge : list) {
            std::string_view left, right, both;
            if (!merge.get(both)) {
                const std::size_t space = both.find(' ');
                left = both.substr(0, space);
                right = space == std::string_view::npos ? std::string_view() : both.substr(space + 1);
            } else if (simdjson::dom::array pair; !merge.get(pair) && pair.size() == 2) {
                if (pair.at(0).get(left) || pair.at(1).get(right))
                    left = {};
            }
            if (left.empty() || right.empty())
                refuse(concat("merge ", line, " is not two tokens"));
            files_.merges.push_back(
                {id_of(left, line), id_of(right, line), id_of(std::string(left) + std::string(right), line)});
            ++line;
        }
        check_made();
    }

    // Every part must be a byte or made by some merge, also a later one.
    void check_made() const {
        std::vector<bool> made(files_.bytes_of_id.size(), false);
        for (const std::int32_t id : files_.byte_ids)
            made[static_cast<std::size_t>(id)] = true;
        for (const Merge& merge : files_.merges)
            made[static_cast<std::size_t>(merge.result)] = true;
        for (std::size_t line = 0; line < files_.merges.size(); ++line)
            for (const std::int32_t id : {files_.merges[line].left, files_.merges[line].right})
                if (!made[static_cast<std::size_t>(id)])
                    refuse(concat("merge ", line, " uses a token that no merge makes"));
    }

    std::filesystem::path path_;
    std::string text_;
    simdjson::dom::parser parser_;
    std::unordered_map<std::string, std::int32_t> ids_;
    BpeVocabulary files_;
};

} // namespace

std::unique_ptr<Tokenizer> load_hf_tokenizer(const std::filesystem::path& tokenizer_json,
                                             SpecialTokens special) {
    return make_byte_level_bpe(Reader(tokenizer_json).read(), special);
}

} // namespace trireme::data
