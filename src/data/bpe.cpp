// Two of the ways to merge; both give what a search for the lowest (rank, position) gives at every step.
#include "data/bpe.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "trireme/base/error.hpp"

namespace trireme::data {

MergeTable::MergeTable(std::vector<Merge> merges) : merges_(std::move(merges)) {
    const std::uint64_t capacity = std::bit_ceil(std::max<std::uint64_t>(64, 2 * merges_.size()));
    slots_.resize(capacity);
    maybe_.resize(std::size_t{1} << (64 - kMaybeShift));
    mask_ = capacity - 1;
    shift_ = 64 - std::countr_zero(capacity);
    for (std::uint32_t index = 0; index < merges_.size(); ++index) {
        const std::uint64_t key = key_of(merges_[index].left, merges_[index].right);
        const std::uint64_t hash = hash_of(key);
        maybe_[hash >> kMaybeShift] |= std::uint64_t{1} << (hash >> (kMaybeShift - 6) & 63);
        std::uint64_t slot = hash >> shift_;
        while (slots_[slot].key != kEmpty && slots_[slot].key != key)
            slot = (slot + 1) & mask_;
        if (slots_[slot].key == kEmpty)
            slots_[slot] = {key, index};
    }
}

BytePairEncoder::BytePairEncoder(const std::array<std::int32_t, 256>& byte_ids, std::vector<Merge> merges)
    : byte_ids_(byte_ids), table_(std::move(merges)), byte_pair_rank_(256 * 256) {
    std::int32_t largest = *std::max_element(byte_ids_.begin(), byte_ids_.end());
    for (const Merge& merge : table_.merges())
        largest = std::max({largest, merge.left, merge.right, merge.result});
    token_bytes_.assign(static_cast<std::size_t>(largest) + 1, 0);
    for (const std::int32_t id : byte_ids_)
        token_bytes_[static_cast<std::size_t>(id)] = 1;
    // A merge may use a token that only a later one makes, so one pass may not be enough.
    for (bool again = true, grown = true; again; grown = false) {
        again = false;
        for (const Merge& merge : table_.merges()) {
            const std::uint32_t left = token_bytes_[static_cast<std::size_t>(merge.left)];
            const std::uint32_t right = token_bytes_[static_cast<std::size_t>(merge.right)];
            std::uint32_t& result = token_bytes_[static_cast<std::size_t>(merge.result)];
            if (result > 0)
                continue;
            if (left > 0 && right > 0) {
                result = left + right;
                grown = true;
            } else {
                again = true;
            }
        }
        TRIREME_ASSERT(grown || !again, "a merge uses a token that no merge makes");
    }
    for (std::size_t left = 0; left < 256; ++left)
        for (std::size_t right = 0; right < 256; ++right)
            byte_pair_rank_[left * 256 + right] = table_.rank(byte_ids_[left], byte_ids_[right]);
}

void BytePairEncoder::encode(std::string_view piece, BpeWorkspace& workspace, std::vector<std::int32_t>& ids,
                             const IdSink& sink) const {
    if (piece.size() <= kLongestScanned)
        encode_by_scan(piece, ids);
    else
        encode_by_windows(piece, workspace, ids, sink);
}

void BytePairEncoder::encode_by_scan(std::string_view piece, std::vector<std::int32_t>& ids) const {
    TRIREME_ASSERT(piece.size() <= kLongestScanned, "a piece of ", piece.size(),
                   " bytes is too long to scan");
    std::array<std::int32_t, kLongestScanned> id;
    std::array<std::uint32_t, kLongestScanned> rank; // of the pair (index, index + 1)
    std::size_t count = piece.size();
    for (std::size_t index = 0; index < count; ++index) {
        const std::size_t byte = static_cast<unsigned char>(piece[index]);
        id[index] = byte_ids_[byte];
        if (index + 1 < count)
            rank[index] = byte_pair_rank_[byte * 256 + static_cast<unsigned char>(piece[index + 1])];
    }
    while (count > 1) {
        std::size_t best = 0;
        for (std::size_t index = 1; index + 1 < count; ++index)
            best = rank[index] < rank[best] ? index : best;
        if (rank[best] == MergeTable::kNone)
            break;
        id[best] = table_.result(rank[best]);
        --count;
        for (std::size_t index = best + 1; index < count; ++index) {
            id[index] = id[index + 1];
            rank[index - 1] = rank[index];
        }
        if (best > 0)
            rank[best - 1] = table_.rank(id[best - 1], id[best]);
        if (best + 1 < count)
            rank[best] = table_.rank(id[best], id[best + 1]);
    }
    ids.insert(ids.end(), id.begin(), id.begin() + static_cast<std::ptrdiff_t>(count));
}

void BytePairEncoder::encode_by_lists(std::string_view piece, BpeWorkspace& workspace,
                                      std::vector<std::int32_t>& ids) const {
    TRIREME_ASSERT(piece.size() < BpeWorkspace::kNoEntry, "a window of ", piece.size(), " bytes");
    const std::uint32_t size = static_cast<std::uint32_t>(piece.size());
    std::vector<std::int32_t>& id = workspace.id;
    std::vector<std::uint32_t>& begin = workspace.begin;
    std::vector<std::uint32_t>& rank = workspace.rank;
    std::vector<BpeWorkspace::Entry>& entries = workspace.entries;
    std::vector<std::uint32_t>& positions = workspace.positions;
    LowestRank& open_ranks = workspace.open_ranks;
    id.resize(size);
    begin.resize(size);
    rank.resize(size);
    entries.clear();
    if (workspace.last.size() != table_.merges().size()) {
        workspace.last.assign(table_.merges().size(), BpeWorkspace::kNoEntry);
        open_ranks = LowestRank(table_.merges().size());
    }

    const auto put = [&](std::uint32_t position, std::uint32_t its_rank) {
        rank[position] = its_rank;
        if (its_rank == MergeTable::kNone)
            return;
        std::uint32_t& last = workspace.last[its_rank];
        if (last == BpeWorkspace::kNoEntry)
            open_ranks.add(its_rank);
        entries.push_back({position, last});
        last = static_cast<std::uint32_t>(entries.size() - 1);
    };
    const auto token_end = [&](std::uint32_t position) {
        return position + token_bytes_[static_cast<std::size_t>(id[position])];
    };

    for (std::uint32_t index = 0; index < size; ++index) {
        id[index] = byte_ids_[static_cast<unsigned char>(piece[index])];
        begin[index] = index;
    }
    if (size > 0)
        rank[size - 1] = MergeTable::kNone;
    for (std::uint32_t index = size; index-- > 1;) // from the right: a list gives what came last first
        put(index - 1, byte_pair_rank_[static_cast<unsigned char>(piece[index - 1]) * 256u +
                                       static_cast<unsigned char>(piece[index])]);

    while (!open_ranks.empty()) {
        const std::uint32_t lowest = open_ranks.lowest();
        open_ranks.remove(lowest);
        positions.clear();
        for (std::uint32_t entry = std::exchange(workspace.last[lowest], BpeWorkspace::kNoEntry);
             entry != BpeWorkspace::kNoEntry; entry = entries[entry].next)
            positions.push_back(entries[entry].position);
        if (positions.front() > positions.back())
            std::reverse(positions.begin(), positions.end());
        if (!std::is_sorted(positions.begin(), positions.end()))
            std::sort(positions.begin(), positions.end());
        for (std::size_t index = 0; index < positions.size(); ++index) {
            // A lower rank can come up only where two merges make the same token: then it goes first.
            if (!open_ranks.empty() && open_ranks.lowest() < lowest) {
                for (; index < positions.size(); ++index)
                    if (rank[positions[index]] == lowest)
                        put(positions[index], lowest);
                break;
            }
            const std::uint32_t left = positions[index];
            if (rank[left] != lowest)
                continue; // merged away, or another pair by now
            const std::uint32_t right = token_end(left);
            const std::uint32_t end = token_end(right);
            rank[right] = MergeTable::kNone;
            id[left] = table_.result(lowest);
            begin[end - 1] = left;
            rank[left] = MergeTable::kNone;
            if (left > 0) {
                const std::uint32_t before = begin[left - 1];
                put(before, table_.rank(id[before], id[left]));
            }
            if (end < size)
                put(left, table_.rank(id[left], id[end]));
        }
    }
    for (std::uint32_t position = 0; position < size; position = token_end(position))
        ids.push_back(id[position]);
}

} // namespace trireme::data
