// The float exponential against libm in double, over the whole range, and lanes summed and compared.
#include "backend/cpu/simd.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace trireme::backend::simd {
namespace {

float exp_of(float x) {
    return exp(splat(x))[0];
}

TEST(SimdExp, WithinTwoUnitsInTheLastPlace) {
    double worst = 0;
    float worst_at = 0;
    // Every 997th float of [2^-30, 88.72] and its negative.
    const auto last = std::bit_cast<std::uint32_t>(88.72F);
    for (auto bits = std::bit_cast<std::uint32_t>(0x1.0p-30F); bits <= last; bits += 997) {
        for (const float x : {std::bit_cast<float>(bits), -std::bit_cast<float>(bits)}) {
            if (x < -87.33F)
                continue;
            const double want = std::exp(static_cast<double>(x));
            const double unit = std::ldexp(1.0, std::ilogb(static_cast<float>(want)) - 23);
            const double error = std::abs(static_cast<double>(exp_of(x)) - want) / unit;
            if (!(error <= worst)) {
                worst = error;
                worst_at = x;
            }
        }
    }
    EXPECT_LE(worst, 2.0) << "at " << worst_at;
    RecordProperty("worst_units", std::to_string(worst));
}

TEST(SimdExp, EndsOfTheRange) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(exp_of(0.0F), 1.0F);
    EXPECT_EQ(exp_of(-0.0F), 1.0F);
    EXPECT_EQ(exp_of(-88.0F), 0.0F);
    EXPECT_EQ(exp_of(-kInfinity), 0.0F);
    EXPECT_EQ(exp_of(-3.0e38F), 0.0F);
    EXPECT_EQ(exp_of(89.0F), kInfinity);
    EXPECT_EQ(exp_of(kInfinity), kInfinity);
    EXPECT_TRUE(std::isnan(exp_of(std::numeric_limits<float>::quiet_NaN())));
    EXPECT_TRUE(std::isnan(exp_of(-std::numeric_limits<float>::quiet_NaN())));
    EXPECT_NEAR(exp_of(88.7228F), std::exp(88.7228), 1e33);
}

TEST(SimdLanes, SumAndMaximumOfPartialVectors) {
    float values[3 * kLanes<float>];
    for (int i = 0; i < 3 * kLanes<float>; ++i)
        values[i] = static_cast<float>(i + 1);
    for (std::int64_t n = 0; n <= 3 * kLanes<float>; ++n) {
        Vec<float> sum{}, most = splat(-1.0F);
        for_vectors<float>(n, [&](std::int64_t i, auto count) {
            sum += load_some(values + i, count);
            most = maximum(load_some(values + i, count, -1.0F), most);
        });
        EXPECT_EQ(sum_of_lanes<float>(sum), static_cast<float>(n * (n + 1) / 2));
        EXPECT_EQ(maximum_of_lanes<float>(most), n == 0 ? -1.0F : static_cast<float>(n));
    }
}

} // namespace
} // namespace trireme::backend::simd
