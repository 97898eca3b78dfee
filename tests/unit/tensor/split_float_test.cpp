// SplitFloat: no bit is lost, and the upper half is the nearest bf16.
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "trireme/tensor/dtype.hpp"

namespace trireme {
namespace {

float number(std::uint32_t bits) {
    return std::bit_cast<float>(bits);
}

// Every lower half beside upper halves of all kinds: even, odd, subnormal, the largest, infinite.
TEST(SplitFloat, LosesNothing) {
    for (const std::uint32_t upper :
         {0x0000u, 0x0001u, 0x3F80u, 0x3F81u, 0x42FFu, 0x7F7Fu, 0x8000u, 0xBF80u, 0xC2FFu, 0xFF7Fu})
        for (std::uint32_t lower = 0; lower < 0x10000u; ++lower) {
            const std::uint32_t bits = upper << 16 | lower;
            const SplitFloat split(number(bits));
            ASSERT_EQ(std::bit_cast<std::uint32_t>(static_cast<float>(split)), bits) << std::hex << bits;
            if (lower != 0x8000u) { // no half: nearest is nearest
                ASSERT_EQ(split.high.bits, BFloat16(number(bits)).bits) << std::hex << bits;
            }
        }
}

TEST(SplitFloat, HalvesGoAwayFromZero) {
    EXPECT_EQ(SplitFloat(number(0x3F808000u)).high.bits, 0x3F81u);
    EXPECT_EQ(SplitFloat(number(0x3F818000u)).high.bits, 0x3F82u);
    EXPECT_EQ(SplitFloat(number(0xBF808000u)).high.bits, 0xBF81u);
}

TEST(SplitFloat, WhatIsNotFiniteStaysSo) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    for (const float value : {kInfinity, -kInfinity})
        EXPECT_EQ(static_cast<float>(SplitFloat(value)), value);
    for (const std::uint32_t bits : {0x7FC00000u, 0x7F800001u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
        const SplitFloat split(number(bits));
        EXPECT_TRUE(std::isnan(static_cast<float>(split)) && std::isnan(static_cast<float>(split.high)))
            << std::hex << bits;
    }
}

} // namespace
} // namespace trireme
