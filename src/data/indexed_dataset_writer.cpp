// The lengths go straight into the unfinished .idx; offsets and boundaries follow from them when all are
// known. So memory stays the same for any number of documents.
#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <unistd.h>
#include <utility>

#include "data/index_format.hpp"
#include "trireme/base/error.hpp"
#include "trireme/base/output_file.hpp"
#include "trireme/data/indexed_dataset.hpp"

namespace trireme::data {

struct IndexedDatasetWriter::State {
    State(const std::string& prefix, TokenType its_type)
        : type(its_type), bin(token_path(prefix)), idx(index_path(prefix)) {}

    TokenType type;
    OutputFile bin;
    OutputFile idx;
    std::int64_t documents = 0;
    std::int64_t tokens = 0;
    std::int64_t open_tokens = 0; // of the document that is being written
};

IndexedDatasetWriter::IndexedDatasetWriter(const std::string& prefix, TokenType type) {
    TRIREME_ASSERT(type == TokenType::u16 || type == TokenType::i32, "only u16 and i32 are written");
    state_ = std::make_unique<State>(prefix, type);
    OutputFile& idx = state_->idx;
    idx.write(kIndexMagic);
    idx.write_value(kIndexVersion);
    idx.write_value(static_cast<std::uint8_t>(type));
    idx.write_value(std::uint64_t{0}); // both counts are filled in by finish()
    idx.write_value(std::uint64_t{0});
}

IndexedDatasetWriter::~IndexedDatasetWriter() = default;

std::int64_t IndexedDatasetWriter::documents() const {
    return state_->documents;
}
std::int64_t IndexedDatasetWriter::tokens() const {
    return state_->tokens;
}

void IndexedDatasetWriter::append(std::span<const std::int32_t> ids) {
    state_->open_tokens += static_cast<std::int64_t>(ids.size());
    if (state_->open_tokens > std::numeric_limits<std::int32_t>::max())
        throw Error(ErrorCategory::data, concat("document ", state_->documents,
                                                " has 2^31 tokens or more; the format holds less"));
    if (state_->type == TokenType::i32) {
        state_->bin.write(std::as_bytes(ids));
        return;
    }
    std::array<std::uint16_t, 8192> narrow;
    while (!ids.empty()) {
        const std::size_t count = std::min(ids.size(), narrow.size());
        for (std::size_t index = 0; index < count; ++index) {
            TRIREME_ASSERT(ids[index] >= 0 && ids[index] <= 0xFFFF, "id ", ids[index], " does not fit u16");
            narrow[index] = static_cast<std::uint16_t>(ids[index]);
        }
        state_->bin.write(std::as_bytes(std::span(narrow).first(count)));
        ids = ids.subspan(count);
    }
}

std::int64_t IndexedDatasetWriter::open_tokens() const {
    return state_->open_tokens;
}

void IndexedDatasetWriter::discard_document() {
    state_->bin.cut_back(state_->tokens * bytes_per_token(state_->type));
    state_->open_tokens = 0;
}

void IndexedDatasetWriter::end_document() {
    state_->idx.write_value(static_cast<std::int32_t>(state_->open_tokens));
    ++state_->documents;
    state_->tokens += std::exchange(state_->open_tokens, 0);
}

void IndexedDatasetWriter::finish(OlderPair older) {
    OutputFile& idx = state_->idx;
    const std::int64_t count = state_->documents;
    const std::int64_t width = bytes_per_token(state_->type);
    std::array<std::int32_t, 4096> lengths;
    std::int64_t offset = 0;
    for (std::int64_t done = 0; done < count;) {
        const std::int64_t now = std::min<std::int64_t>(count - done, lengths.size());
        const std::span<std::int32_t> part = std::span(lengths).first(static_cast<std::size_t>(now));
        idx.read_at(kIndexHeaderBytes + 4 * done, std::as_writable_bytes(part));
        for (const std::int32_t length : part) {
            idx.write_value(offset);
            offset += length * width;
        }
        done += now;
    }
    for (std::int64_t document = 0; document <= count; ++document)
        idx.write_value(document);
    const std::array<std::uint64_t, 2> counts = {static_cast<std::uint64_t>(count),
                                                 static_cast<std::uint64_t>(count) + 1};
    idx.write_at(kSequenceCountOffset, std::as_bytes(std::span(counts)));

    state_->bin.sync();
    idx.sync();
    // Without the old .idx nobody can open the new .bin with it, whenever we are stopped.
    if (older == OlderPair::may_differ && ::unlink(idx.path().c_str()) != 0 && errno != ENOENT)
        throw Error(ErrorCategory::output,
                    concat("cannot replace ", idx.path().string(), ": ", system_reason()));
    const std::filesystem::path directory = directory_of(idx.path());
    sync_directory(directory);
    state_->bin.publish();
    idx.publish();
    sync_directory(directory);
}

} // namespace trireme::data
