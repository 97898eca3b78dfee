// A draw of this file has the Philox counter (x, round | stream << 8, epoch, epoch >> 32) under the key of
// RandomDomain::sample_order: rounds 0 to 7 belong to the Feistel network, 255 to the offset of an epoch.
#include "trireme/data/sample_order.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "trireme/base/error.hpp"

namespace trireme::data {
namespace {

constexpr int kRounds = 8;
constexpr std::uint32_t kOffsetRound = 255;
// Below 2^6 a half would have too few values for eight rounds to mix well; small sizes walk a little longer
// instead.
constexpr int kFewestBits = 6;

std::uint64_t draw(PhiloxKey key, std::uint64_t value, std::uint32_t round, std::uint32_t stream,
                   std::uint64_t epoch) {
    const PhiloxCounter words =
        philox4x32({static_cast<std::uint32_t>(value), round | (stream << 8),
                    static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(epoch >> 32)},
                   key);
    return (static_cast<std::uint64_t>(words[0]) << 32) | words[1];
}

} // namespace

Permutation::Permutation(std::uint64_t size, PhiloxKey key, std::uint32_t stream, std::uint64_t epoch)
    : size_(size), key_(key), stream_(stream), epoch_(epoch) {
    TRIREME_ASSERT(size > 0 && size <= (std::uint64_t{1} << 62), "a permutation of ", size);
    const int bits = std::max(kFewestBits, static_cast<int>(std::bit_width(size - 1)));
    left_bits_ = bits / 2;
    right_bits_ = bits - left_bits_;
}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
    TRIREME_ASSERT(index < size_, "index ", index, " of a permutation of ", size_);
    std::uint64_t value = index;
    do {
        // left has `low` bits and right `high` bits; each round swaps them, and after an even number of
        // rounds the widths are back where they were.
        int low = left_bits_, high = right_bits_;
        std::uint64_t left = value >> high, right = value & ((std::uint64_t{1} << high) - 1);
        for (std::uint32_t round = 0; round < kRounds; ++round) {
            const std::uint64_t mixed =
                left ^ (draw(key_, right, round, stream_, epoch_) & ((std::uint64_t{1} << low) - 1));
            left = right;
            right = mixed;
            std::swap(low, high);
        }
        value = (left << high) | right;
    } while (value >= size_);
    return value;
}

SampleOrder::SampleOrder(std::int64_t tokens, std::int64_t sequence_length, std::uint64_t seed,
                         std::uint32_t stream)
    : tokens_(tokens), sequence_length_(sequence_length), samples_per_epoch_(0),
      key_(philox_key(seed, RandomDomain::sample_order)), stream_(stream) {
    TRIREME_ASSERT(sequence_length > 0 && tokens > sequence_length, tokens, " tokens, sequence length ",
                   sequence_length);
    samples_per_epoch_ = (tokens - 1) / sequence_length;
}

std::int64_t SampleOrder::epoch_offset(std::int64_t epoch) const {
    // 64 random bits modulo a length far below 2^32 are uniform to better than 2^-32.
    const std::uint64_t word = draw(key_, 0, kOffsetRound, stream_, static_cast<std::uint64_t>(epoch));
    return static_cast<std::int64_t>(word % static_cast<std::uint64_t>(sequence_length_));
}

std::int64_t SampleOrder::begin(std::int64_t sample) const {
    TRIREME_ASSERT(sample >= 0, "sample ", sample);
    const std::int64_t epoch = sample / samples_per_epoch_;
    const Permutation permutation(static_cast<std::uint64_t>(samples_per_epoch_), key_, stream_,
                                  static_cast<std::uint64_t>(epoch));
    const auto window =
        static_cast<std::int64_t>(permutation(static_cast<std::uint64_t>(sample % samples_per_epoch_)));
    return (epoch_offset(epoch) + window * sequence_length_) % tokens_;
}

} // namespace trireme::data
