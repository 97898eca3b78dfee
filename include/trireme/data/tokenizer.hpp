// Tokenizers: text to token ids and back. Ids are a function of the vocabulary files alone: letters, numbers
// and spaces come from a table built into the program, not from the locale or a library of the system.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::data {

// Takes ids that will not be looked at again, so that those of a long text need not be in memory together.
using IdSink = std::function<void(std::span<const std::int32_t> ids)>;

// What one thread remembers between calls so that a word it has seen costs one look-up: pass the same scratch
// to every call of a thread, and to one tokenizer only.
class TokenizerScratch {
  public:
    virtual ~TokenizerScratch() = default;
    // Gives back what a long text has taken.
    virtual void shrink() {}
};

// Immutable once made, so any number of threads may use one tokenizer at the same time.
class Tokenizer {
  public:
    virtual ~Tokenizer() = default;

    virtual std::unique_ptr<TokenizerScratch> make_scratch() const = 0;
    // Appends the ids of `text` to `ids`. Bytes that are not valid UTF-8 are kept, each as a character that
    // is neither letter, number nor space. Where there is a sink, the first of `ids` go to it whenever they
    // are more than some hundred thousand; what is in `ids` at the end comes after them.
    virtual void encode(std::string_view text, TokenizerScratch& scratch, std::vector<std::int32_t>& ids,
                        const IdSink& sink) const = 0;
    void encode(std::string_view text, TokenizerScratch& scratch, std::vector<std::int32_t>& ids) const {
        encode(text, scratch, ids, IdSink());
    }
    std::vector<std::int32_t> encode(std::string_view text) const;

    // The bytes of the ids, which may be cut inside a character. Throws Error (data) on an id without a
    // token.
    virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
    // The largest id plus one.
    virtual std::int64_t vocab_size() const = 0;
    virtual std::int32_t end_of_document() const = 0;
    // A hash of all that the ids depend on.
    virtual std::uint64_t fingerprint() const = 0;
};

// What a special token that is spelt out in the text becomes: the ids of its characters, or its own.
enum class SpecialTokens { are_text, have_ids };

// GPT-2's byte-level BPE from its vocab.json and merges.txt (also those that `trireme-data train-bpe`
// writes). The one special token is <|endoftext|>. Throws Error (data) that names file and line where the two
// do not fit together.
std::unique_ptr<Tokenizer> load_gpt2_bpe(const std::filesystem::path& vocab_json,
                                         const std::filesystem::path& merges_txt,
                                         SpecialTokens special = SpecialTokens::are_text);

// A tokenizer.json of Hugging Face's `tokenizers`, of the byte-level BPE family with the pre-tokenizer of
// GPT-2, Llama 3 or Qwen 2.5. Its added tokens are the special ones; its post-processor, which would add them
// to every text, is left aside. Throws Error (data) that names what it cannot do.
std::unique_ptr<Tokenizer> load_hf_tokenizer(const std::filesystem::path& tokenizer_json,
                                             SpecialTokens special = SpecialTokens::are_text);

// Texts are ids below vocab_size, separated by white space; the end of a document is vocab_size itself, one
// more id. Throws Error (data) on other text.
std::unique_ptr<Tokenizer> make_null_tokenizer(std::int64_t vocab_size);

// The Unicode version of the table of letters, numbers and spaces, "16.0.0".
std::string_view unicode_version();

} // namespace trireme::data
