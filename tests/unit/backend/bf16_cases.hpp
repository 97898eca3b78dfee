// For tests of operations on bf16: arrays whose values bf16 holds exactly, and the bound of one rounding.
#pragma once

#include "cases.hpp"

namespace trireme::test {

// x rounded to bf16.
inline Array<BFloat16> rounded(const Array<float>& x) {
    Array<BFloat16> out(x.shape);
    for (std::size_t i = 0; i < x.values.size(); ++i)
        out.values[i] = BFloat16(x.values[i]);
    return out;
}
inline Array<float> widened(const Array<BFloat16>& x) {
    Array<float> out(x.shape);
    for (std::size_t i = 0; i < x.values.size(); ++i)
        out.values[i] = static_cast<float>(x.values[i]);
    return out;
}
// The same random values in both types.
struct Bf16Pair {
    Array<BFloat16> half;
    Array<float> wide;
};
inline Bf16Pair random_pair(const Shape& shape, unsigned seed, double size = 1) {
    const auto half = rounded(random_array<float>(shape, seed, size));
    return {half, widened(half)};
}

// got: an operation's result in bf16; want: the same operation in fp32 on the same values. One rounding to
// nearest errs by at most half a unit in the last of 8 places; the fp32 results themselves may differ by
// `slack` of the largest value where sums are ordered otherwise.
inline testing::AssertionResult one_rounding(const Array<BFloat16>& got, const std::vector<float>& want,
                                             double slack = 4 * 0x1p-24) {
    if (got.values.size() != want.size())
        return testing::AssertionFailure() << got.values.size() << " values, expected " << want.size();
    const auto size = static_cast<double>(largest(want));
    for (std::size_t i = 0; i < want.size(); ++i) {
        const double value = want[i], half = static_cast<float>(got.values[i]);
        const double bound = (value == 0 ? 0 : std::ldexp(1.0, std::ilogb(value) - 8)) + slack * size;
        if (!(std::abs(half - value) <= bound))
            return testing::AssertionFailure() << "at " << i << ": " << half << ", in fp32 " << value
                                               << ", more than " << bound << " apart";
    }
    return testing::AssertionSuccess();
}

} // namespace trireme::test
