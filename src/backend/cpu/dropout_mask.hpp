// Dropout's random words as ops.hpp defines them, drawn many at a time: blocks of four words with consecutive
// first counters, computed side by side so that the compiler vectorises the rounds.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "trireme/backend/ops.hpp"
#include "trireme/base/philox.hpp"

namespace trireme::backend {

class DropoutMask {
  public:
    // Words of elements drawn at once.
    static constexpr std::int64_t kBatch = 64;

    // b: row of the micro-batch. head: global head, 0 for hidden states.
    DropoutMask(const Dropout& dropout, std::int64_t b, std::int64_t head)
        : key_(philox_key(dropout.seed, RandomDomain::dropout)),
          threshold_(static_cast<std::uint64_t>(std::llround(0x1.0p32 * (1 - dropout.probability)))),
          factor_(1 / (1 - dropout.probability)) {
        const auto sample = static_cast<std::uint64_t>(dropout.first_sample + b);
        counter_[2] = static_cast<std::uint32_t>(dropout.site) << 28 |
                      static_cast<std::uint32_t>(dropout.layer) << 16 | static_cast<std::uint32_t>(head);
        counter_[3] = static_cast<std::uint32_t>(sample);
        key_[1] += static_cast<std::uint32_t>(sample >> 32);
    }

    // visit(i, multiplier) with 1 / (1 - p) or 0 for i in [0, count): elements first + i (channel or key;
    // first is a multiple of 4) at this position (or query).
    template <class T, class Visit>
    void for_each(std::int64_t position, std::int64_t first, std::int64_t count, const Visit& visit) const {
        std::array<std::uint32_t, kBatch> words;
        for (std::int64_t begin = 0; begin < count; begin += kBatch) {
            draw(position, (first + begin) / 4, words);
            const std::int64_t here = std::min(kBatch, count - begin);
            const T kept = static_cast<T>(factor_);
            for (std::int64_t i = 0; i < here; ++i)
                visit(begin + i, words[static_cast<std::size_t>(i)] < threshold_ ? kept : T{0});
        }
    }

  private:
    void draw(std::int64_t position, std::int64_t block, std::array<std::uint32_t, kBatch>& words) const;

    PhiloxKey key_;
    PhiloxCounter counter_{};
    std::uint64_t threshold_; // 2^32 keeps every word
    double factor_;
};

} // namespace trireme::backend
