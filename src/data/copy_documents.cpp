// Copies run through a buffer of fixed size, and what has been read of the mapped inputs is let go again.
#include "trireme/data/copy_documents.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <vector>

#include "data/index_format.hpp"
#include "trireme/base/error.hpp"
#include "trireme/base/philox.hpp"
#include "trireme/data/sample_order.hpp"

namespace trireme::data {
namespace {

constexpr std::int64_t kBufferTokens = std::int64_t{1} << 20;
constexpr std::int64_t kTokensUntilForget = std::int64_t{1} << 25;

class Copier {
  public:
    Copier(IndexedDatasetWriter& writer, const std::function<void(std::int64_t)>& progress)
        : writer_(writer), progress_(progress), buffer_(static_cast<std::size_t>(kBufferTokens)) {}

    void copy(const IndexedDataset& file, std::int64_t document) {
        const std::int64_t begin = file.document_begin(document), end = file.document_begin(document + 1);
        if (end < begin)
            throw Error(ErrorCategory::data,
                        concat(index_path(file.prefix()), ": document ", document, " ends before it begins"));
        for (std::int64_t at = begin; at < end; at += kBufferTokens) {
            const std::span<std::int32_t> part =
                std::span(buffer_).first(static_cast<std::size_t>(std::min(kBufferTokens, end - at)));
            file.read(at, part);
            writer_.append(part);
        }
        writer_.end_document();
        copied_ += end - begin;
        since_forget_ += end - begin + kTokensOfAnEntry;
        if (since_forget_ > kTokensUntilForget) {
            file.forget();
            since_forget_ = 0;
            if (progress_)
                progress_(copied_);
        }
    }

  private:
    // A document's entries in .idx are memory, too; scattered, each may be a page.
    static constexpr std::int64_t kTokensOfAnEntry = 2048;

    IndexedDatasetWriter& writer_;
    const std::function<void(std::int64_t)>& progress_;
    std::vector<std::int32_t> buffer_;
    std::int64_t copied_ = 0, since_forget_ = 0;
};

} // namespace

void merge_documents(std::span<const std::string> from, const std::string& to,
                     const std::function<void(std::int64_t)>& progress) {
    TRIREME_ASSERT(!from.empty(), "nothing to merge");
    std::vector<std::unique_ptr<IndexedDataset>> files;
    TokenType type = TokenType::u16;
    for (const std::string& prefix : from) {
        files.push_back(std::make_unique<IndexedDataset>(prefix));
        if (files.back()->type() != TokenType::u16)
            type = TokenType::i32;
    }
    IndexedDatasetWriter writer(to, type);
    Copier copier(writer, progress);
    for (const auto& file : files) {
        for (std::int64_t document = 0; document < file->documents(); ++document)
            copier.copy(*file, document);
        file->forget();
    }
    writer.finish();
}

void shuffle_documents(const IndexedDataset& file, const std::string& to, std::uint64_t seed) {
    file.random_access();
    IndexedDatasetWriter writer(to, file.type() == TokenType::u16 ? TokenType::u16 : TokenType::i32);
    const std::function<void(std::int64_t)> quiet;
    Copier copier(writer, quiet);
    const std::int64_t documents = file.documents();
    if (documents > 0) {
        const Permutation order(static_cast<std::uint64_t>(documents),
                                philox_key(seed, RandomDomain::document_shuffle), 0, 0);
        for (std::int64_t document = 0; document < documents; ++document)
            copier.copy(file, static_cast<std::int64_t>(order(static_cast<std::uint64_t>(document))));
    }
    writer.finish();
}

IdRange verify_ids(const IndexedDataset& file, std::int64_t vocab_size,
                   const std::function<void(std::int64_t)>& progress) {
    std::vector<std::int32_t> buffer(static_cast<std::size_t>(kBufferTokens));
    IdRange range = {std::numeric_limits<std::int32_t>::max(), std::numeric_limits<std::int32_t>::min()};
    for (std::int64_t at = 0; at < file.tokens(); at += kBufferTokens) {
        const std::span<std::int32_t> part =
            std::span(buffer).first(static_cast<std::size_t>(std::min(kBufferTokens, file.tokens() - at)));
        file.read(at, part);
        const auto [smallest, largest] = std::minmax_element(part.begin(), part.end());
        if (*smallest < 0 || *largest >= vocab_size) {
            const auto wrong = std::find_if(part.begin(), part.end(),
                                            [&](std::int32_t id) { return id < 0 || id >= vocab_size; });
            const std::int64_t position = at + (wrong - part.begin());
            const std::int64_t document = file.document_at(position);
            throw Error(ErrorCategory::data,
                        concat(token_path(file.prefix()), ": token id ", *wrong, " of document ", document,
                               ", its token ", position - file.document_begin(document), ", is outside [0, ",
                               vocab_size, ")"));
        }
        range = {std::min(range.smallest, *smallest), std::max(range.largest, *largest)};
        if (at / kTokensUntilForget != (at + kBufferTokens) / kTokensUntilForget)
            file.forget();
        if (progress)
            progress(at + static_cast<std::int64_t>(part.size()));
    }
    return range;
}

} // namespace trireme::data
