// Opening and reading. The stream of all tokens is .bin itself: offsets must be the running sum of the
// lengths, so a range of documents is a range of bytes and no sample needs a search.
#include "trireme/data/indexed_dataset.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "data/index_format.hpp"
#include "trireme/base/error.hpp"

namespace trireme::data {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& rule,
                         std::vector<std::string> details = {}) {
    if (details.empty())
        details.push_back("try: another --data-path, or trireme-data preprocess again");
    throw Error(ErrorCategory::data, concat(path, ": ", rule), std::move(details));
}

void check_present(const std::string& prefix) {
    for (const std::string& path : {index_path(prefix), token_path(prefix)}) {
        std::error_code ignored;
        if (std::filesystem::exists(path, ignored))
            continue;
        std::vector<std::string> details;
        if (prefix.ends_with(".bin") || prefix.ends_with(".idx"))
            details.push_back(
                concat("try: the prefix without its ending, ", prefix.substr(0, prefix.size() - 4)));
        else if (prefix.find(".json") != std::string::npos)
            details.push_back("try: trireme-data preprocess, and the prefix that it prints");
        else
            details.push_back(
                "a dataset is the two files PREFIX.bin and PREFIX.idx; trireme-data preprocess writes them");
        throw Error(ErrorCategory::data, concat("no dataset at ", prefix, ": ", path, " does not exist"),
                    std::move(details));
    }
}

template <class Value>
bool copy_tokens(const std::byte* from, std::span<std::int32_t> ids) {
    bool fits = true;
    for (std::size_t index = 0; index < ids.size(); ++index) {
        Value value;
        std::memcpy(&value, from + index * sizeof(Value), sizeof(Value));
        ids[index] = static_cast<std::int32_t>(value);
        if constexpr (sizeof(Value) > sizeof(std::int32_t))
            fits = fits && ids[index] == value;
    }
    return fits;
}

} // namespace

std::int64_t bytes_per_token(TokenType type) {
    switch (type) {
    case TokenType::u8:
    case TokenType::i8:
        return 1;
    case TokenType::i16:
    case TokenType::u16:
        return 2;
    case TokenType::i32:
        return 4;
    case TokenType::i64:
        return 8;
    }
    TRIREME_ASSERT(false, "token type ", static_cast<int>(type));
    return 0;
}

TokenType token_type_for(std::int64_t vocab_size) {
    return vocab_size <= 65536 ? TokenType::u16 : TokenType::i32;
}

IndexedDataset::IndexedDataset(const std::string& prefix) : prefix_(prefix) {
    check_present(prefix);
    const std::string idx = index_path(prefix), bin = token_path(prefix);
    idx_ = MappedFile(idx, ErrorCategory::data);
    bin_ = MappedFile(bin, ErrorCategory::data);
    const std::span<const std::byte> bytes = idx_.bytes();
    const std::uint64_t size = bytes.size();
    if (size < static_cast<std::uint64_t>(kIndexHeaderBytes))
        refuse(idx, concat("cut short: ", size, " bytes, the header alone has ", kIndexHeaderBytes));
    if (std::memcmp(bytes.data(), kIndexMagic.data(), kIndexMagic.size()) != 0)
        refuse(idx, "not an index of tokens: it does not begin with MMIDIDX");
    if (const auto version = load<std::uint64_t>(bytes, 9); version != kIndexVersion)
        refuse(idx, concat("version ", version, " of the format; only 1 is known"));
    const int code = load<std::uint8_t>(bytes, 17);
    if (code != 8 && (code < 1 || code > 5))
        refuse(idx,
               concat("type code ", code, " is no type of tokens (1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 8 u16)"));
    type_ = static_cast<TokenType>(code);

    const auto sequences = load<std::uint64_t>(bytes, kSequenceCountOffset);
    const auto boundaries = load<std::uint64_t>(bytes, kSequenceCountOffset + 8);
    const std::uint64_t body = size - static_cast<std::uint64_t>(kIndexHeaderBytes);
    if (boundaries == 0)
        refuse(idx, "no document boundaries: there must be one more than documents");
    // Compared by division, so that counts made to wrap cannot pass.
    if (sequences > body / 12 || boundaries > (body - 12 * sequences) / 8 ||
        12 * sequences + 8 * boundaries != body) {
        std::vector<std::string> details;
        if (sequences <= body / 13 && boundaries <= body / 8 && 13 * sequences + 8 * boundaries == body)
            details.push_back(
                "it has a mode for each sequence, as multimodal datasets do: only text is supported");
        refuse(idx,
               concat("damaged or cut short: ", size, " bytes do not fit ", sequences, " sequences and ",
                      boundaries, " boundaries"),
               std::move(details));
    }
    sequences_ = static_cast<std::int64_t>(sequences);
    documents_ = static_cast<std::int64_t>(boundaries) - 1;
    if (boundary(0) != 0 || boundary(documents_) != sequences_)
        refuse(idx, concat("the document boundaries run from ", boundary(0), " to ", boundary(documents_),
                           ", not from 0 to the number of sequences, ", sequences_));

    const std::int64_t width = bytes_per_token(type_);
    const std::int64_t bin_bytes = static_cast<std::int64_t>(bin_.bytes().size());
    std::int64_t described = 0;
    if (sequences_ > 0) {
        const std::int64_t length = sequence_length(sequences_ - 1), offset = sequence_offset(sequences_ - 1);
        if (length < 0 || offset < 0 || offset > std::numeric_limits<std::int64_t>::max() - length * width)
            refuse(idx, concat("the last sequence has length ", length, " and offset ", offset));
        if (sequence_offset(0) != 0)
            refuse(idx, concat("the first sequence begins at byte ", sequence_offset(0),
                               " of the tokens, not at 0"));
        described = offset + length * width;
    }
    if (bin_bytes != described)
        refuse(bin,
               concat(bin_bytes < described ? "cut short: " : "grown: ", bin_bytes, " bytes, but ", idx,
                      " describes ", described),
               {"the two files do not belong together or one was not written completely; try: trireme-data "
                "preprocess again"});
    if (described % width != 0)
        refuse(idx,
               concat("the last sequence begins inside a token, at byte ", sequence_offset(sequences_ - 1)));
    tokens_ = described / width;
}

std::int64_t IndexedDataset::sequence_length(std::int64_t sequence) const {
    return load<std::int32_t>(idx_.bytes(), kIndexHeaderBytes + 4 * sequence);
}
std::int64_t IndexedDataset::sequence_offset(std::int64_t sequence) const {
    return load<std::int64_t>(idx_.bytes(), kIndexHeaderBytes + 4 * sequences_ + 8 * sequence);
}
std::int64_t IndexedDataset::boundary(std::int64_t document) const {
    return load<std::int64_t>(idx_.bytes(), kIndexHeaderBytes + 12 * sequences_ + 8 * document);
}

std::int64_t IndexedDataset::document_begin(std::int64_t document) const {
    TRIREME_ASSERT(document >= 0 && document <= documents_, "document ", document, " of ", documents_);
    const std::int64_t sequence = boundary(document);
    if (sequence < 0 || sequence > sequences_)
        refuse(index_path(prefix_),
               concat("document ", document, " begins at sequence ", sequence, " of ", sequences_));
    const std::int64_t offset =
        sequence == sequences_ ? tokens_ * bytes_per_token(type_) : sequence_offset(sequence);
    const std::int64_t begin = offset / bytes_per_token(type_);
    if (offset < 0 || begin > tokens_ || offset % bytes_per_token(type_) != 0)
        refuse(index_path(prefix_),
               concat("document ", document, " begins at byte ", offset, " of ", token_path(prefix_)));
    return begin;
}

std::int64_t IndexedDataset::document_at(std::int64_t position) const {
    TRIREME_ASSERT(position >= 0 && position < tokens_, "position ", position, " of ", tokens_);
    std::int64_t low = 0, high = documents_; // the last document that begins at or before position
    while (high - low > 1) {
        const std::int64_t middle = low + (high - low) / 2;
        (document_begin(middle) <= position ? low : high) = middle;
    }
    return low;
}

void IndexedDataset::fetch(std::int64_t position, std::int64_t tokens) const {
    const std::int64_t width = bytes_per_token(type_);
    bin_.fetch(static_cast<std::size_t>(position * width), static_cast<std::size_t>(tokens * width));
}

void IndexedDataset::read(std::int64_t position, std::span<std::int32_t> ids) const {
    TRIREME_ASSERT(
        position >= 0 && position <= tokens_ && static_cast<std::int64_t>(ids.size()) <= tokens_ - position,
        "tokens ", position, " to ", position + static_cast<std::int64_t>(ids.size()), " of ", tokens_);
    const std::byte* from = bin_.bytes().data() + position * bytes_per_token(type_);
    bool fits = true;
    switch (type_) {
    case TokenType::u8:
        fits = copy_tokens<std::uint8_t>(from, ids);
        break;
    case TokenType::i8:
        fits = copy_tokens<std::int8_t>(from, ids);
        break;
    case TokenType::i16:
        fits = copy_tokens<std::int16_t>(from, ids);
        break;
    case TokenType::u16:
        fits = copy_tokens<std::uint16_t>(from, ids);
        break;
    case TokenType::i32:
        fits = copy_tokens<std::int32_t>(from, ids);
        break;
    case TokenType::i64:
        fits = copy_tokens<std::int64_t>(from, ids);
        break;
    }
    if (!fits)
        refuse(token_path(prefix_),
               concat("an id between the tokens ", position, " and ",
                      position + static_cast<std::int64_t>(ids.size()), " does not fit 32 bits"));
}

void IndexedDataset::verify() const {
    const std::string idx = index_path(prefix_);
    std::int64_t expected = 0;
    for (std::int64_t sequence = 0; sequence < sequences_; ++sequence) {
        const std::int64_t length = sequence_length(sequence), offset = sequence_offset(sequence);
        if (length < 0)
            refuse(idx, concat("sequence ", sequence, " has length ", length));
        if (offset != expected)
            refuse(idx, concat("sequence ", sequence, " begins at byte ", offset,
                               ", but the ones before it end at ", expected));
        expected += length * bytes_per_token(type_);
    }
    for (std::int64_t document = 0; document < documents_; ++document)
        if (boundary(document) > boundary(document + 1))
            refuse(idx, concat("document ", document, " ends at sequence ", boundary(document + 1),
                               ", before its begin at ", boundary(document)));
}

} // namespace trireme::data
