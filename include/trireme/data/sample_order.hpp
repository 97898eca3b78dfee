// The order in which training sees a stream of T tokens, computed and never stored. The stream is read as a
// ring. Epoch e has W = floor((T - 1) / S) windows of S + 1 tokens (neighbours share one), which start at an
// offset of its own in [0, S) and are visited in the order of a permutation of its own. Both are functions of
// (seed, split, epoch).
//
// Example, T = 11, S = 3: W = 3. With offset 2 in some epoch the windows begin at 2, 5 and 8; the last one
// holds the tokens 8, 9, 10, 0.
#pragma once

#include <cstdint>

#include "trireme/base/philox.hpp"

namespace trireme::data {

// A keyed permutation of [0, size): a Feistel network over the next power of two, walked until it falls below
// size.
class Permutation {
  public:
    // `stream` and `epoch` tell permutations of one key apart.
    Permutation(std::uint64_t size, PhiloxKey key, std::uint32_t stream, std::uint64_t epoch);
    std::uint64_t operator()(std::uint64_t index) const;

  private:
    std::uint64_t size_;
    PhiloxKey key_;
    std::uint32_t stream_;
    std::uint64_t epoch_;
    int left_bits_;
    int right_bits_;
};

class SampleOrder {
  public:
    // Needs tokens > sequence_length > 0. `stream` is the number of the split.
    SampleOrder(std::int64_t tokens, std::int64_t sequence_length, std::uint64_t seed, std::uint32_t stream);

    std::int64_t samples_per_epoch() const { return samples_per_epoch_; }
    // The position in the ring, in [0, tokens), of the first token of a sample. Samples count on over the
    // epochs.
    std::int64_t begin(std::int64_t sample) const;
    // The offset in [0, sequence_length) of an epoch's windows.
    std::int64_t epoch_offset(std::int64_t epoch) const;

  private:
    std::int64_t tokens_;
    std::int64_t sequence_length_;
    std::int64_t samples_per_epoch_;
    PhiloxKey key_;
    std::uint32_t stream_;
};

} // namespace trireme::data
