// Float16 against its definition: every value by ldexp, and rounding against the two neighbours of numbers
// between them. The vectors of the CPU backend convert alike.
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "backend/cpu/stored.hpp"
#include "trireme/tensor/dtype.hpp"

namespace trireme {
namespace {

Float16 from_bits(unsigned bits) {
    Float16 half;
    half.bits = static_cast<std::uint16_t>(bits);
    return half;
}

// IEEE 754: (-1)^sign 2^(exponent - 15) (1 + mantissa / 1024), subnormal with exponent 0.
double defined_value(unsigned bits) {
    const int exponent = static_cast<int>(bits >> 10 & 31), mantissa = static_cast<int>(bits & 1023);
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    if (exponent == 31)
        return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                             : std::numeric_limits<double>::quiet_NaN();
    return exponent == 0 ? sign * std::ldexp(mantissa, -24)
                         : sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Float16, EveryValueIsAsDefined) {
    for (unsigned bits = 0; bits < 65536; ++bits) {
        const double want = defined_value(bits), got = static_cast<float>(from_bits(bits));
        if (std::isnan(want)) {
            EXPECT_TRUE(std::isnan(got)) << bits;
            EXPECT_TRUE(std::isnan(static_cast<float>(Float16(static_cast<float>(got))))) << bits;
        } else {
            ASSERT_EQ(got, want) << bits;
            ASSERT_EQ(std::signbit(got), std::signbit(want)) << bits;
            ASSERT_EQ(Float16(static_cast<float>(got)).bits, bits);
        }
    }
}

// Between neighbours lower and lower + 1 the middle goes to the even one, what is next to it to the nearer.
// The neighbour of 65504 counts as 65536, from where on it is infinite.
TEST(Float16, RoundsToNearestEven) {
    for (unsigned lower = 0; lower < 0x7C00; ++lower) {
        const double low = defined_value(lower), high = lower == 0x7BFF ? 65536 : defined_value(lower + 1);
        const auto middle = static_cast<float>((low + high) / 2); // exact: 12 bits
        const unsigned even = lower % 2 == 0 ? lower : lower + 1;
        for (const float sign : {1.0F, -1.0F}) {
            const unsigned sign_bit = sign < 0 ? 0x8000 : 0;
            ASSERT_EQ(Float16(sign * middle).bits, even | sign_bit) << lower;
            ASSERT_EQ(Float16(sign * std::nextafter(middle, 0.0F)).bits, lower | sign_bit) << lower;
            ASSERT_EQ(Float16(sign * std::nextafter(middle, 1e9F)).bits, (lower + 1) | sign_bit) << lower;
        }
    }
    EXPECT_EQ(Float16(1e30F).bits, 0x7C00);
    EXPECT_EQ(Float16(-std::numeric_limits<float>::infinity()).bits, 0xFC00);
    EXPECT_EQ(Float16(1e-30F).bits, 0);
    EXPECT_EQ(Float16(-1e-40F).bits, 0x8000); // a subnormal float
}

TEST(Float16, VectorsConvertAlike) {
    std::vector<Float16> halves;
    std::vector<float> floats;
    for (unsigned bits = 0; bits < 65536; ++bits) {
        halves.push_back(from_bits(bits));
        const float value = static_cast<float>(halves.back());
        const float next = static_cast<float>(from_bits(bits + 1));
        floats.insert(floats.end(), {value, value + (next - value) / 2, value + (next - value) / 3});
    }
    floats.insert(floats.end(), {65519.9F, 65520.0F, 1e30F, 1e-40F, -1e-8F, -0.0F, 3e-8F}); // and a tail
    std::vector<float> wide(halves.size());
    backend::widen_values(halves.data(), static_cast<std::int64_t>(halves.size()), wide.data());
    for (std::size_t i = 0; i < halves.size(); ++i)
        ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]),
                  std::bit_cast<std::uint32_t>(static_cast<float>(halves[i])))
            << i;
    std::vector<Float16> narrow(floats.size());
    backend::narrow_values(floats.data(), static_cast<std::int64_t>(floats.size()), narrow.data());
    for (std::size_t i = 0; i < floats.size(); ++i)
        ASSERT_EQ(narrow[i].bits, Float16(floats[i]).bits) << floats[i];
}

} // namespace
} // namespace trireme
