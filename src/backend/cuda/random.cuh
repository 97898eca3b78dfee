// Dropout's random words on the device, as ops.hpp defines them: the same mask, bit for bit, as on the CPU.
#pragma once

#include <cmath>
#include <cstdint>

#include "trireme/backend/ops.hpp"
#include "trireme/base/philox.hpp"

namespace trireme::backend {

struct DeviceDropout {
    bool active = false;
    float factor = 1;            // of what is kept
    std::uint64_t threshold = 0; // a word below it keeps its element; 2^32 keeps all
    std::uint64_t first_sample = 0;
    std::uint32_t last = 0; // the largest word that keeps its element
    std::uint32_t key0 = 0, key1 = 0, counter2 = 0, first_position = 0;

    DeviceDropout() = default;
    // first_head: added to counter2 with the head number; 0 for hidden states.
    explicit DeviceDropout(const Dropout& dropout)
        : active(dropout.probability > 0), factor(static_cast<float>(1 / (1 - dropout.probability))),
          threshold(static_cast<std::uint64_t>(std::llround(0x1.0p32 * (1 - dropout.probability)))),
          first_sample(static_cast<std::uint64_t>(dropout.first_sample)),
          counter2(static_cast<std::uint32_t>(dropout.site) << 28 | static_cast<std::uint32_t>(dropout.layer)
                                                                        << 16),
          first_position(static_cast<std::uint32_t>(dropout.first_position)) {
        const PhiloxKey key = philox_key(dropout.seed, RandomDomain::dropout);
        last = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, threshold) - 1);
        key0 = key[0];
        key1 = key[1];
    }

    // Which of block `block` (channels or keys 4 * block ...) are kept at this row, position and head: bit i
    // for its element i.
    __device__ std::uint32_t kept(std::int64_t b, std::uint32_t position, std::uint32_t block,
                                  std::uint32_t head) const {
        const std::uint64_t sample = first_sample + static_cast<std::uint64_t>(b);
        std::uint32_t c0 = block, c1 = position, c2 = counter2 | head,
                      c3 = static_cast<std::uint32_t>(sample);
        std::uint32_t k0 = key0, k1 = key1 + static_cast<std::uint32_t>(sample >> 32);
#pragma unroll
        for (int round = 0; round < 10; ++round) {
            const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * c0; // one instruction each
            const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * c2;
            c0 = static_cast<std::uint32_t>(product1 >> 32) ^ c1 ^ k0;
            c1 = static_cast<std::uint32_t>(product1);
            c2 = static_cast<std::uint32_t>(product0 >> 32) ^ c3 ^ k1;
            c3 = static_cast<std::uint32_t>(product0);
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        return (c0 <= last ? 1u : 0u) | (c1 <= last ? 2u : 0u) | (c2 <= last ? 4u : 0u) |
               (c3 <= last ? 8u : 0u);
    }

    // Their multipliers (0 or factor).
    __device__ void multipliers(std::int64_t b, std::uint32_t position, std::uint32_t block,
                                std::uint32_t head, float (&to)[4]) const {
        const std::uint32_t bits = kept(b, position, block, head);
#pragma unroll
        for (int i = 0; i < 4; ++i)
            to[i] = bits >> i & 1 ? factor : 0;
    }
};

} // namespace trireme::backend
