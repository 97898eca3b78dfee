// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy
// as 1, 2, 3" (SC 2011). A draw is a pure function of (counter, key), so whoever knows the logical position
// of a parameter, a dropout mask or a sample knows its random numbers, on any rank and in any layout.
#pragma once

#include <array>
#include <cstdint>

namespace trireme {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

// Four independent uniform 32-bit words.
constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
    constexpr std::uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
    constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t product0 = kMultiplier0 * counter[0];
        const std::uint64_t product1 = kMultiplier1 * counter[2];
        counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
                   static_cast<std::uint32_t>(product1),
                   static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
                   static_cast<std::uint32_t>(product0)};
        key[0] += kWeyl0;
        key[1] += kWeyl1;
    }
    return counter;
}

// What a draw is for: keeps the streams of one seed apart. Values are part of the meaning of a seed: never
// reuse.
enum class RandomDomain : std::uint32_t {
    initial_weights = 1,
    dropout = 2,
    sample_order = 3,
    generation = 4,
    document_shuffle = 5
};

// The key of a domain under a user's 64-bit seed.
constexpr PhiloxKey philox_key(std::uint64_t seed, RandomDomain domain) {
    const PhiloxCounter mixed =
        philox4x32({static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                    static_cast<std::uint32_t>(domain), 0x54524952u /* "TRIR" */},
                   {0, 0});
    return {mixed[0], mixed[1]};
}

// [0, 1) with 53 bits from two words.
constexpr double uniform_double(std::uint32_t high, std::uint32_t low) {
    return static_cast<double>(((static_cast<std::uint64_t>(high) << 32) | low) >> 11) * 0x1.0p-53;
}

} // namespace trireme
