// For tests of operations on bf16 and fp16 (S): arrays whose values S holds exactly, and the bound of one
// rounding.
#pragma once

#include "cases.hpp"

namespace trireme::test {

// x rounded to S.
template <class S>
Array<S> rounded(const Array<float>& x) {
    Array<S> out(x.shape);
    for (std::size_t i = 0; i < x.values.size(); ++i)
        out.values[i] = S(x.values[i]);
    return out;
}
template <class S>
Array<float> widened(const Array<S>& x) {
    Array<float> out(x.shape);
    for (std::size_t i = 0; i < x.values.size(); ++i)
        out.values[i] = static_cast<float>(x.values[i]);
    return out;
}
// The same random values in both types.
template <class S>
struct NarrowPair {
    Array<S> half;
    Array<float> wide;
};
template <class S = BFloat16>
NarrowPair<S> random_pair(const Shape& shape, unsigned seed, double size = 1) {
    const auto half = rounded<S>(random_array<float>(shape, seed, size));
    return {half, widened(half)};
}

// got: an operation's result in S; want: the same operation in fp32 on the same values. One rounding to
// nearest errs by at most half a unit in the last of 8 places (fp16: of 11, or of 2^-24 if that is more); the
// fp32 results themselves may differ by `slack` of the largest value where sums are ordered otherwise.
template <class S>
testing::AssertionResult one_rounding(const Array<S>& got, const std::vector<float>& want,
                                      double slack = 4 * 0x1p-24) {
    if (got.values.size() != want.size())
        return testing::AssertionFailure() << got.values.size() << " values, expected " << want.size();
    const auto size = static_cast<double>(largest(want));
    for (std::size_t i = 0; i < want.size(); ++i) {
        const double value = want[i], half = static_cast<float>(got.values[i]);
        constexpr bool kIsFp16 = std::is_same_v<S, Float16>;
        double rounding = value == 0 ? 0 : std::ldexp(1.0, std::ilogb(value) - (kIsFp16 ? 11 : 8));
        if (kIsFp16)
            rounding = std::max(rounding, 0x1p-25);
        const double bound = rounding + slack * size;
        if (!(std::abs(half - value) <= bound))
            return testing::AssertionFailure() << "at " << i << ": " << half << ", in fp32 " << value
                                               << ", more than " << bound << " apart";
    }
    return testing::AssertionSuccess();
}

} // namespace trireme::test
