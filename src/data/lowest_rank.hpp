// A set of ranks that knows its lowest: a tree of words of 64 bits, in which a bit says that the word below
// it is not empty. Every operation looks at one word a level; three levels do for 262,144 ranks.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trireme::data {

class LowestRank {
  public:
    explicit LowestRank(std::size_t ranks = 0) { // of the ranks below `ranks`
        do {
            ranks = (ranks + 63) / 64;
            levels_.emplace_back(ranks > 0 ? ranks : 1);
        } while (ranks > 1);
    }
    bool empty() const { return levels_.back().front() == 0; }
    void add(std::uint32_t rank) {
        for (std::vector<std::uint64_t>& words : levels_) {
            words[rank / 64] |= std::uint64_t{1} << (rank % 64);
            rank /= 64;
        }
    }
    void remove(std::uint32_t rank) {
        for (std::vector<std::uint64_t>& words : levels_) {
            words[rank / 64] &= ~(std::uint64_t{1} << (rank % 64));
            if (words[rank / 64] != 0)
                break;
            rank /= 64;
        }
    }
    // Of a set that is not empty.
    std::uint32_t lowest() const {
        std::uint32_t rank = 0;
        for (std::size_t level = levels_.size(); level-- > 0;)
            rank = 64 * rank + static_cast<std::uint32_t>(std::countr_zero(levels_[level][rank]));
        return rank;
    }

  private:
    std::vector<std::vector<std::uint64_t>> levels_; // the ranks themselves first, one word last
};

} // namespace trireme::data
