// Numbers in text, for data that were tokenized elsewhere and for measurements.
#include <charconv>

#include "data/bpe_vocabulary.hpp"
#include "trireme/base/error.hpp"

namespace trireme::data {
namespace {

class NullTokenizer final : public Tokenizer {
  public:
    explicit NullTokenizer(std::int64_t vocab_size)
        : end_of_document_(static_cast<std::int32_t>(vocab_size)) {}

    std::unique_ptr<TokenizerScratch> make_scratch() const override {
        return std::make_unique<TokenizerScratch>();
    }

    using Tokenizer::encode;
    void encode(std::string_view text, TokenizerScratch&, std::vector<std::int32_t>& ids,
                const IdSink& sink) const override {
        constexpr std::string_view kSpaces = " \t\r\n\v\f";
        for (std::size_t at = text.find_first_not_of(kSpaces); at < text.size();
             at = text.find_first_not_of(kSpaces, at)) {
            const std::string_view word = text.substr(at, text.find_first_of(kSpaces, at) - at);
            std::int32_t id = -1;
            const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
            if (error != std::errc() || end != word.data() + word.size() || id < 0 || id >= end_of_document_)
                throw Error(ErrorCategory::data,
                            concat("\"", word.substr(0, 40),
                                   "\" is no token id: NullTokenizer takes whole numbers ", "from 0 to ",
                                   end_of_document_ - 1, ", separated by spaces"));
            ids.push_back(id);
            if (sink && ids.size() >= kMostIdsKept) {
                sink(ids);
                ids.clear();
            }
            at += word.size();
        }
    }

    std::string decode(std::span<const std::int32_t> ids) const override {
        std::string text;
        for (const std::int32_t id : ids) {
            if (id < 0 || id > end_of_document_)
                throw Error(ErrorCategory::data, concat("token id ", id, " is not in the vocabulary of ",
                                                        vocab_size(), " tokens"));
            text += concat(text.empty() ? "" : " ", id);
        }
        return text;
    }

    std::int64_t vocab_size() const override { return std::int64_t{end_of_document_} + 1; }
    std::int32_t end_of_document() const override { return end_of_document_; }
    std::uint64_t fingerprint() const override {
        return hash_bytes(concat("NullTokenizer ", end_of_document_));
    }

  private:
    static constexpr std::size_t kMostIdsKept = std::size_t{1} << 18;

    std::int32_t end_of_document_;
};

} // namespace

std::unique_ptr<Tokenizer> make_null_tokenizer(std::int64_t vocab_size) {
    if (vocab_size < 1 || vocab_size >= std::int64_t{1} << 31)
        throw Error(ErrorCategory::usage,
                    concat("a vocabulary of ", vocab_size, ": 1 to 2147483647 are possible"));
    return std::make_unique<NullTokenizer>(vocab_size);
}

} // namespace trireme::data
