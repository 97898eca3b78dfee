// Dropout on hidden states: the exact mask from its counters, its rate, bias and residual in every
// combination.
#include "cases.hpp"
#include "trireme/base/philox.hpp"

namespace trireme::test {
namespace {

using backend::Dropout;
using backend::DropoutSite;

constexpr std::int64_t kLength = 5, kBatch = 3, kWidth = 70;

bool kept(const Dropout& d, std::uint32_t site, std::int64_t t, std::int64_t b, std::int64_t c) {
    const auto sample = static_cast<std::uint64_t>(d.first_sample + b);
    PhiloxKey key = philox_key(d.seed, RandomDomain::dropout);
    key[1] += static_cast<std::uint32_t>(sample >> 32);
    const PhiloxCounter words = philox4x32(
        {static_cast<std::uint32_t>(c / 4), static_cast<std::uint32_t>(d.first_position + t),
         site << 28 | static_cast<std::uint32_t>(d.layer) << 16, static_cast<std::uint32_t>(sample)},
        key);
    return words[static_cast<std::size_t>(c % 4)] < std::round(4294967296.0 * (1 - d.probability));
}

template <class T>
class DropoutTest : public testing::Test {};
using FloatTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(DropoutTest, FloatTypes);

TYPED_TEST(DropoutTest, DrawsTheDefinedMask) {
    using T = TypeParam;
    const Shape shape{kLength, kBatch, kWidth};
    // Sample numbers cross 2^32 within the batch.
    const Dropout d{0.3, 99, DropoutSite::mlp_output, 4095, (std::int64_t{1} << 32) - 1, 1000};
    auto x = random_array<T>(shape, 1), bias = random_array<T>(Shape{kWidth}, 2),
         residual = random_array<T>(shape, 3);
    for (const bool with_bias : {false, true})
        for (const bool with_residual : {false, true}) {
            const auto got = on_all_threads([&](backend::Operations& ops) {
                Array<T> out(shape, T{9});
                ops.bias_dropout_residual(x.tensor(), with_bias ? bias.tensor() : Tensor{},
                                          with_residual ? residual.tensor() : Tensor{}, d, out.tensor());
                return out.values;
            });
            std::vector<double> want;
            for (std::int64_t t = 0; t < kLength; ++t)
                for (std::int64_t b = 0; b < kBatch; ++b)
                    for (std::int64_t c = 0; c < kWidth; ++c) {
                        const auto i = static_cast<std::size_t>((t * kBatch + b) * kWidth + c);
                        double value = x.values[i];
                        if (with_bias)
                            value += bias.values[static_cast<std::size_t>(c)];
                        value = kept(d, 3, t, b, c) ? value / 0.7 : 0;
                        if (with_residual)
                            value += residual.values[i];
                        want.push_back(value);
                    }
            // A product and two sums of numbers below 4: a few roundings.
            EXPECT_TRUE(within(got, want, 8 * std::numeric_limits<T>::epsilon()));
        }
    const auto gradient = on_all_threads([&](backend::Operations& ops) {
        Array<T> out(shape, T{9});
        ops.dropout_gradient(x.tensor(), d, out.tensor());
        return out.values;
    });
    for (std::size_t i = 0; i < gradient.size(); ++i) {
        const auto row = static_cast<std::int64_t>(i) / kWidth;
        const double want = kept(d, 3, row / kBatch, row % kBatch, static_cast<std::int64_t>(i) % kWidth)
                                ? x.values[i] / 0.7
                                : 0;
        EXPECT_NEAR(gradient[i], want, 4 * std::numeric_limits<T>::epsilon());
    }
}

TYPED_TEST(DropoutTest, ProbabilityZeroKeepsAllAndWorksInPlace) {
    using T = TypeParam;
    const Shape shape{2, 2, 9};
    auto x = random_array<T>(shape, 4), residual = random_array<T>(shape, 5);
    const auto before_x = x, before = residual;
    const auto cpu = backend::make_cpu_backend(1);
    cpu->compute().bias_dropout_residual(x.tensor(), {}, residual.tensor(), {}, residual.tensor());
    for (std::size_t i = 0; i < before.values.size(); ++i)
        EXPECT_EQ(residual.values[i], before.values[i] + before_x.values[i]);
    cpu->compute().bias_dropout_residual(x.tensor(), {}, {}, {}, x.tensor());
    EXPECT_EQ(x.values, before_x.values);
}

TEST(DropoutRate, IsTheProbabilityAsked) {
    const Shape shape{64, 4, 1000};
    Array<float> x(shape, 1.0F), out(shape);
    const auto cpu = backend::make_cpu_backend(2);
    for (const double p : {0.1, 0.5, 0.9}) {
        cpu->compute().bias_dropout_residual(x.tensor(), {}, {}, {p, 7, DropoutSite::embedding, 0, 0, 0},
                                             out.tensor());
        double count = 0;
        for (const float value : out.values) {
            EXPECT_TRUE(value == 0.0F || std::abs(value - 1 / (1 - p)) < 1e-6);
            count += value != 0.0F;
        }
        const double n = static_cast<double>(out.values.size());
        EXPECT_NEAR(count / n, 1 - p, 5 * std::sqrt(p * (1 - p) / n)); // five standard deviations
    }
    EXPECT_THROW(
        cpu->compute().dropout_gradient(x.tensor(), {1.0, 7, DropoutSite::embedding, 0, 0, 0}, out.tensor()),
        Error);
}

} // namespace
} // namespace trireme::test
