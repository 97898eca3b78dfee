// AdamW against a plain double loop of its published formula and a closed form; sums of squares.
#include "cases.hpp"

namespace trireme::test {
namespace {

using backend::Adam;
using backend::GradWrite;

template <class T>
class Optimizer : public testing::Test {};
using FloatTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(Optimizer, FloatTypes);

constexpr std::int64_t kCount = 9001;
constexpr double kFactor = 0.25;

// Loshchilov and Hutter 2019, algorithm 2, in the order in which torch.optim.AdamW evaluates it.
template <class R>
void adamw(std::vector<R>& w, std::vector<R>& m, std::vector<R>& v, const std::vector<R>& g, const Adam& a) {
    const R b1 = static_cast<R>(a.beta1), b2 = static_cast<R>(a.beta2), lr = static_cast<R>(a.learning_rate);
    const R c1 = static_cast<R>(1 - std::pow(static_cast<long double>(a.beta1), a.step));
    const R c2 = static_cast<R>(1 - std::pow(static_cast<long double>(a.beta2), a.step));
    for (std::size_t i = 0; i < w.size(); ++i) {
        const R scaled = g[i] * static_cast<R>(kFactor);
        w[i] *= 1 - lr * static_cast<R>(a.weight_decay);
        m[i] += (scaled - m[i]) * (1 - b1);
        v[i] = v[i] * b2 + scaled * scaled * (1 - b2);
        w[i] -= lr / c1 * (m[i] / (std::sqrt(v[i]) / std::sqrt(c2) + static_cast<R>(a.epsilon)));
    }
}

TYPED_TEST(Optimizer, FollowsAdamW) {
    using T = TypeParam;
    const auto start = random_array<T>(Shape{kCount}, 1);
    auto factor = Array<double>(Shape{1}, kFactor);
    Adam adam{0.01, 0.9, 0.95, 1e-8, 0.1, 1};
    Array<T> w(start), m(Shape{kCount}), v(Shape{kCount}), copy(Shape{kCount});
    on_all_threads([&](backend::Operations& ops) {
        w = start;
        m = v = Array<T>(Shape{kCount});
        for (unsigned step = 1; step <= 5; ++step) {
            adam.step = step;
            auto g = random_array<T>(Shape{kCount}, 100 + step);
            ops.adam_update(w.tensor(), g.tensor(), m.tensor(), v.tensor(), copy.tensor(), factor.tensor(),
                            adam);
        }
        std::vector<T> all = w.values;
        append(all, m);
        append(all, v);
        return all;
    });
    EXPECT_EQ(copy.values, w.values);
    const auto reference = [&](auto zero) {
        using R = decltype(zero);
        auto rw = start.template as<R>();
        std::vector<R> rm(rw.size(), 0), rv(rw.size(), 0);
        for (unsigned step = 1; step <= 5; ++step) {
            Adam now = adam;
            now.step = step;
            adamw<R>(rw, rm, rv, random_array<T>(Shape{kCount}, 100 + step).template as<R>(), now);
        }
        return rw;
    };
    const auto truth = reference(0.0L);
    EXPECT_TRUE(within(w.values, truth, twice_plain_error(reference(T{0}), truth)));
}

// The first step is known in closed form: mhat = g, vhat = g^2, so w moves by lr * (sign(g) + decay * w).
TYPED_TEST(Optimizer, FirstStepMovesBySign) {
    using T = TypeParam;
    Array<T> w(Shape{2}), g(Shape{2}), m(Shape{2}), v(Shape{2});
    w.values = {2, 2};
    g.values = {4, -4};
    auto factor = Array<double>(Shape{1}, 1);
    const Adam adam{0.5, 0.9, 0.999, 0, 0.25, 1};
    backend::make_cpu_backend(1)->compute().adam_update(w.tensor(), g.tensor(), m.tensor(), v.tensor(), {},
                                                        factor.tensor(), adam);
    // 1 - beta2 = 0.001 carries the rounding of beta2, 500 times its own.
    EXPECT_NEAR(w.values[0], 2 - 0.5 * (1 + 0.5), 500 * std::numeric_limits<T>::epsilon());
    EXPECT_NEAR(w.values[1], 2 - 0.5 * (-1 + 0.5), 500 * std::numeric_limits<T>::epsilon());
}

TEST(OptimizerFactor, NonFiniteChangesNothingAndBf16CopiesAreRounded) {
    auto w = random_array<float>(Shape{100}, 2), g = random_array<float>(Shape{100}, 3);
    Array<float> m(Shape{100}), v(Shape{100});
    Array<BFloat16> copy(Shape{100}, BFloat16(7.0F));
    const auto before = w;
    const auto cpu = backend::make_cpu_backend(2);
    for (const double bad :
         {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
        auto factor = Array<double>(Shape{1}, bad);
        cpu->compute().adam_update(w.tensor(), g.tensor(), m.tensor(), v.tensor(), copy.tensor(),
                                   factor.tensor(), {0.1, 0.9, 0.999, 1e-8, 0, 1});
        EXPECT_EQ(w.values, before.values);
        EXPECT_EQ(m.values, std::vector<float>(100, 0.0F));
        EXPECT_EQ(copy.values[0].bits, BFloat16(7.0F).bits);
    }
    auto factor = Array<double>(Shape{1}, 1);
    cpu->compute().adam_update(w.tensor(), g.tensor(), m.tensor(), v.tensor(), copy.tensor(), factor.tensor(),
                               {0.1, 0.9, 0.999, 1e-8, 0, 1});
    for (std::size_t i = 0; i < 100; ++i) {
        EXPECT_NE(w.values[i], before.values[i]);
        EXPECT_EQ(copy.values[i].bits, BFloat16(w.values[i]).bits);
    }
}

TEST(OptimizerFactor, ScalesAndClipsByTheNorm) {
    const auto cpu = backend::make_cpu_backend(1);
    const auto factor_of = [&](double squared_norm, const backend::FactorRule& rule) {
        auto squared = Array<double>(Shape{1}, squared_norm), factor = Array<double>(Shape{1}, 7);
        cpu->compute().update_factor(squared.tensor(), rule, factor.tensor());
        return factor.values[0];
    };
    EXPECT_EQ(factor_of(16, {.scale = 0.125}), 0.125);
    EXPECT_EQ(factor_of(16, {.scale = 0.125, .clip_norm = 0.75}), 0.125) << "a norm of 0.5 is not clipped";
    EXPECT_DOUBLE_EQ(factor_of(16, {.scale = 0.5, .clip_norm = 1}), 0.5 / (2 + 1e-6));
    EXPECT_EQ(factor_of(0, {.scale = 0.5, .clip_norm = 1}), 0.5);
    for (const double bad : {std::numeric_limits<double>::infinity(), std::nan(""), -1.0})
        EXPECT_TRUE(std::isnan(factor_of(bad, {.scale = 0.5, .clip_norm = 1}))) << bad;
    EXPECT_TRUE(std::isnan(factor_of(1e308, {.scale = 1e200}))) << "the norm is beyond what a double holds";
}

// The rest beside bf16 weights is fp32 master weights in another form.
TEST(SplitMasterWeights, AreUpdatedAsTheWhole) {
    auto whole = random_array<float>(Shape{kCount}, 4);
    Array<float> m(Shape{kCount}), v(Shape{kCount}), m_split(Shape{kCount}), v_split(Shape{kCount});
    Array<BFloat16> weights(Shape{kCount});
    Array<std::int16_t> rest(Shape{kCount});
    for (std::size_t i = 0; i < whole.values.size(); ++i) {
        const SplitFloat split(whole.values[i]);
        weights.values[i] = split.high;
        rest.values[i] = split.rest;
    }
    auto factor = Array<double>(Shape{1}, kFactor);
    const auto cpu = backend::make_cpu_backend(2);
    for (unsigned step = 1; step <= 5; ++step) {
        const Adam adam{0.01, 0.9, 0.95, 1e-8, 0.1, step};
        auto g = random_array<float>(Shape{kCount}, 100 + step);
        cpu->compute().adam_update(whole.tensor(), g.tensor(), m.tensor(), v.tensor(), {}, factor.tensor(),
                                   adam);
        cpu->compute().adam_update(rest.tensor(), g.tensor(), m_split.tensor(), v_split.tensor(),
                                   weights.tensor(), factor.tensor(), adam);
    }
    for (std::size_t i = 0; i < whole.values.size(); ++i) {
        ASSERT_EQ(static_cast<float>(SplitFloat(weights.values[i], rest.values[i])), whole.values[i]);
        ASSERT_EQ(weights.values[i].bits, SplitFloat(whole.values[i]).high.bits);
    }
    EXPECT_EQ(m_split.values, m.values);
    EXPECT_EQ(v_split.values, v.values);
}

TYPED_TEST(Optimizer, SumOfSquares) {
    using T = TypeParam;
    for (const std::int64_t count : {1, 17, 65536, 200003}) {
        auto x = random_array<T>(Shape{count}, 4);
        long double want = 0;
        for (const T value : x.values)
            want += static_cast<long double>(value) * static_cast<long double>(value);
        const auto got = on_all_threads([&](backend::Operations& ops) {
            Array<double> result(Shape{1}, 1000.0);
            ops.sum_of_squares(x.tensor(), result.tensor(), GradWrite::overwrite);
            ops.sum_of_squares(x.tensor(), result.tensor(), GradWrite::accumulate);
            return result.values;
        });
        // Blocks of 65536 in 16 lanes: at most some 4100 roundings of half a unit each.
        EXPECT_TRUE(within(got, std::vector<long double>{2 * want}, 4100 * 0x1.0p-53L * 2 * want)) << count;
    }
}

TEST(OptimizerSums, NanIsSeen) {
    auto x = random_array<float>(Shape{100}, 5);
    x.values[99] = std::numeric_limits<float>::quiet_NaN();
    Array<double> result(Shape{1});
    backend::make_cpu_backend(2)->compute().sum_of_squares(x.tensor(), result.tensor(), GradWrite::overwrite);
    EXPECT_TRUE(std::isnan(result.values[0]));
}

} // namespace
} // namespace trireme::test
