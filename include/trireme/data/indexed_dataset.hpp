// Token files in Megatron-LM's format: PREFIX.bin holds the ids of all documents back to back, PREFIX.idx
// their lengths, offsets and boundaries. Opening checks what can be checked in constant time, so that it does
// not grow with the corpus; verify() checks every rule of the format.
//
// PREFIX.idx, little-endian: "MMIDIDX\0\0", u64 version 1, u8 type code, u64 sequences S, u64 boundaries D +
// 1, i32[S] length in tokens, i64[S] byte offset in .bin, i64[D + 1] first sequence of each document and S.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "trireme/base/file.hpp"

namespace trireme::data {

// The values are the type codes of the format. The floating-point codes 6 and 7 are no tokens.
enum class TokenType : std::uint8_t { u8 = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, u16 = 8 };

std::int64_t bytes_per_token(TokenType type);
// The type that files of a vocabulary are written in: u16 up to 65,536 tokens, i32 above.
TokenType token_type_for(std::int64_t vocab_size);

// A pair of files, mapped read-only. Move-only; any number of threads may read.
class IndexedDataset {
  public:
    // Throws Error (data) that names the file and the rule it breaks.
    explicit IndexedDataset(const std::string& prefix);

    const std::string& prefix() const { return prefix_; }
    TokenType type() const { return type_; }
    std::int64_t sequences() const { return sequences_; }
    std::int64_t documents() const { return documents_; }
    std::int64_t tokens() const { return tokens_; }

    // Where document 0 <= document <= documents() begins in the stream of all tokens; documents() gives
    // tokens().
    std::int64_t document_begin(std::int64_t document) const;
    std::int64_t document_length(std::int64_t document) const {
        return document_begin(document + 1) - document_begin(document);
    }
    // The document that holds the token at a position of the stream (binary search, for messages).
    std::int64_t document_at(std::int64_t position) const;

    // Copies ids.size() tokens from `position` of the stream of all tokens. Values are not compared with a
    // vocabulary.
    void read(std::int64_t position, std::span<std::int32_t> ids) const;

    // Asks the system to load tokens that are about to be read; for scattered reads, with random_access()
    // before.
    void fetch(std::int64_t position, std::int64_t tokens) const;
    void random_access() const { bin_.advise(MappedAccess::random); }
    // What has been read no longer counts as memory of this process; for passes over whole files.
    void forget() const {
        bin_.forget();
        idx_.forget();
    }

    // Every rule, in time proportional to the number of documents: lengths not negative, offsets their
    // running sum, boundaries ascending. Throws Error (data) that names the first sequence or document that
    // breaks one.
    void verify() const;

  private:
    std::int64_t sequence_length(std::int64_t sequence) const;
    std::int64_t sequence_offset(std::int64_t sequence) const;
    std::int64_t boundary(std::int64_t document) const;

    std::string prefix_;
    MappedFile bin_;
    MappedFile idx_;
    TokenType type_ = TokenType::i32;
    std::int64_t sequences_ = 0;
    std::int64_t documents_ = 0;
    std::int64_t tokens_ = 0;
};

// What finish() may find under the names of the pair.
enum class OlderPair {
    may_differ, // the old .idx goes first, so that no mixed pair can be opened
    same_bytes, // at most what another process writes from the same input: .idx is there at all times
};

// Writes a pair of files. Both appear under their names when finish() has put them on disk, or not at all;
// memory does not grow with the number of documents. One thread at a time.
class IndexedDatasetWriter {
  public:
    // Throws Error (output) when the files cannot be created.
    IndexedDatasetWriter(const std::string& prefix, TokenType type);
    ~IndexedDatasetWriter();
    IndexedDatasetWriter(const IndexedDatasetWriter&) = delete;
    IndexedDatasetWriter& operator=(const IndexedDatasetWriter&) = delete;

    void add_document(std::span<const std::int32_t> ids) {
        append(ids);
        end_document();
    }
    // A document piece by piece, for those that should not be in memory as a whole.
    void append(std::span<const std::int32_t> ids);
    void end_document();
    std::int64_t open_tokens() const; // appended since the last document ended
    void discard_document();          // forgets them
    // Replaces older files of this prefix.
    void finish(OlderPair older = OlderPair::may_differ);

    std::int64_t documents() const;
    std::int64_t tokens() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace trireme::data
