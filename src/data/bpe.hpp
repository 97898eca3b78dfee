// Byte-pair encoding of one piece of text: again and again the pair of neighbours with the lowest rank
// becomes one token, the leftmost first where several have it. Short pieces are scanned for the lowest rank;
// longer ones keep the positions of each rank in a list, so that the time grows with the length and not with
// its square; still longer ones go through windows (bpe_windows.cpp), so that memory does not grow at all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "data/lowest_rank.hpp"
#include "trireme/data/tokenizer.hpp"

namespace trireme::data {

struct Merge {
    std::int32_t left, right, result;
};

// Pairs of tokens to their rank, by open addressing.
class MergeTable {
  public:
    static constexpr std::uint32_t kNone = 0xFFFFFFFFu;

    // merges[rank]. Of two merges of one pair the first counts.
    explicit MergeTable(std::vector<Merge> merges);

    std::uint32_t rank(std::int32_t left, std::int32_t right) const {
        const std::uint64_t key = key_of(left, right);
        const std::uint64_t hash = hash_of(key);
        if ((maybe_[hash >> kMaybeShift] >> (hash >> (kMaybeShift - 6) & 63) & 1) == 0)
            return kNone; // most pairs are no merge
        for (std::uint64_t slot = hash >> shift_;; slot = (slot + 1) & mask_) {
            if (slots_[slot].key == key)
                return slots_[slot].rank;
            if (slots_[slot].key == kEmpty)
                return kNone;
        }
    }
    std::int32_t result(std::uint32_t rank) const { return merges_[rank].result; }
    const std::vector<Merge>& merges() const { return merges_; }

  private:
    struct Slot {
        std::uint64_t key = kEmpty;
        std::uint32_t rank = kNone;
    };
    static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
    static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
        return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) |
               static_cast<std::uint32_t>(right);
    }
    static std::uint64_t hash_of(std::uint64_t key) { return key * 0x9E3779B97F4A7C15ull; }
    static constexpr int kMaybeShift = 64 - 14; // 2^14 words of 64 bits: 128 KiB

    std::vector<Merge> merges_;
    std::vector<Slot> slots_;
    std::vector<std::uint64_t> maybe_; // a bit by hash: clear where no merge has that hash
    std::uint64_t mask_ = 0;
    int shift_ = 0;
};

// Buffers that encode() reuses; one for each thread.
struct BpeWorkspace {
    static constexpr std::uint32_t kNoEntry = 0xFFFFFFFFu;
    struct Entry {
        std::uint32_t position, next; // the entry that was put into the same list before, or kNoEntry
    };
    std::vector<std::int32_t> id;         // of the token that begins at a byte
    std::vector<std::uint32_t> begin;     // of the token that ends at a byte (inclusive)
    std::vector<std::uint32_t> rank;      // of the pair whose left token begins at a byte
    std::vector<Entry> entries;           // of all lists: positions that have, or had, a rank
    std::vector<std::uint32_t> last;      // entry, by rank
    LowestRank open_ranks;                // those whose list is not empty
    std::vector<std::uint32_t> positions; // of the list that is being worked on
    std::vector<std::int32_t> window;     // ids
};

class BytePairEncoder {
  public:
    // byte_ids: the token of each byte. Every merge's parts must be bytes or results of merges.
    BytePairEncoder(const std::array<std::int32_t, 256>& byte_ids, std::vector<Merge> merges);

    // Appends the tokens of a piece. Where there is a sink, it may get those before them, too, and some of
    // these.
    void encode(std::string_view piece, BpeWorkspace& workspace, std::vector<std::int32_t>& ids,
                const IdSink& sink) const;
    std::int32_t byte_id(unsigned char byte) const { return byte_ids_[byte]; }

    // The three ways, public for the tests that compare them.
    static constexpr std::size_t kLongestScanned = 40;
    void encode_by_scan(std::string_view piece, std::vector<std::int32_t>& ids) const;
    // A piece of less than 2^32 bytes.
    void encode_by_lists(std::string_view piece, BpeWorkspace& workspace,
                         std::vector<std::int32_t>& ids) const;
    static constexpr std::size_t kWindowBytes = std::size_t{1} << 15;
    static constexpr std::size_t kSharedTokens = 8; // of two windows, at first
    void encode_by_windows(std::string_view piece, BpeWorkspace& workspace, std::vector<std::int32_t>& ids,
                           const IdSink& sink, std::size_t window_bytes = kWindowBytes,
                           std::size_t shared_tokens = kSharedTokens) const;

  private:
    std::size_t bytes_of(std::int32_t id) const { return token_bytes_[static_cast<std::size_t>(id)]; }

    std::array<std::int32_t, 256> byte_ids_;
    MergeTable table_;
    std::vector<std::uint32_t> token_bytes_;    // length, by token
    std::vector<std::uint32_t> byte_pair_rank_; // [256 * 256]: of two bytes
};

} // namespace trireme::data
