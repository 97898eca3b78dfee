// SwiGLU: against its formula, gradients against finite differences, bf16 against fp32.
#include "bf16_cases.hpp"

namespace trireme::test {
namespace {

template <class T>
class Swiglu : public testing::Test {};
using FloatTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(Swiglu, FloatTypes);

template <class R>
R logistic(R x) {
    return 1 / (1 + std::exp(-x));
}
template <class R>
R silu_derivative(R x) {
    return logistic(x) * (1 + x * logistic(-x));
}

template <class R>
struct Reference {
    std::vector<R> y, grad;
};
template <class R>
Reference<R> reference(const std::vector<R>& gate_up, const std::vector<R>& grad_y, std::size_t width) {
    Reference<R> out;
    out.grad.assign(gate_up.size(), 0);
    for (std::size_t i = 0; i < grad_y.size(); ++i) {
        const std::size_t gate = i / width * 2 * width + i % width, up = gate + width;
        out.y.push_back(gate_up[gate] * logistic(gate_up[gate]) * gate_up[up]);
        out.grad[gate] = grad_y[i] * gate_up[up] * silu_derivative(gate_up[gate]);
        out.grad[up] = grad_y[i] * gate_up[gate] * logistic(gate_up[gate]);
    }
    return out;
}

TYPED_TEST(Swiglu, MatchesItsFormula) {
    using T = TypeParam;
    for (const auto& [n, width] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 5}, {41, 700}}) {
        auto gate_up = random_array<T>(Shape{n, 2 * width}, 1, 9),
             grad_y = random_array<T>(Shape{n, width}, 2);
        const auto as = [&](auto zero) {
            using R = decltype(zero);
            return reference<R>(gate_up.template as<R>(), grad_y.template as<R>(),
                                static_cast<std::size_t>(width));
        };
        const auto truth = as(0.0L);
        const auto plain = as(T{0});
        Array<T> y(Shape{n, width}), grad(Shape{n, 2 * width});
        on_all_threads([&](backend::Operations& ops) {
            ops.swiglu_forward(gate_up.tensor(), y.tensor());
            ops.swiglu_input_gradient(grad_y.tensor(), gate_up.tensor(), grad.tensor());
            std::vector<T> all = y.values;
            append(all, grad);
            return all;
        });
        EXPECT_TRUE(within(y.values, truth.y, twice_plain_error(plain.y, truth.y))) << n << " x " << width;
        EXPECT_TRUE(within(grad.values, truth.grad, twice_plain_error(plain.grad, truth.grad)));
    }
}

TEST(SwigluGradient, MatchesFiniteDifferences) {
    const std::int64_t n = 3, width = 5;
    auto gate_up = random_array<double>(Shape{n, 2 * width}, 3, 2),
         grad_y = random_array<double>(Shape{n, width}, 4);
    Array<double> y(Shape{n, width}), grad(Shape{n, 2 * width});
    const auto cpu = backend::make_cpu_backend(1);
    const auto want = finite_differences(gate_up.values, [&] {
        cpu->compute().swiglu_forward(gate_up.tensor(), y.tensor());
        return dot(y.values, grad_y.values);
    });
    cpu->compute().swiglu_input_gradient(grad_y.tensor(), gate_up.tensor(), grad.tensor());
    EXPECT_TRUE(within(grad.values, want, kFiniteDifferenceBound * largest(want)));
}

TYPED_TEST(Swiglu, LargeGatesAreTheUpOrNothingAndNanStays) {
    using T = TypeParam;
    const T nan = std::numeric_limits<T>::quiet_NaN();
    Array<T> gate_up(Shape{1, 8}, T{2}), grad_y(Shape{1, 4}, T{1}), y(Shape{1, 4}), grad(Shape{1, 8});
    gate_up.values[0] = T{1e4}, gate_up.values[1] = T{-1e4}, gate_up.values[2] = nan;
    const auto cpu = backend::make_cpu_backend(1);
    cpu->compute().swiglu_forward(gate_up.tensor(), y.tensor());
    cpu->compute().swiglu_input_gradient(grad_y.tensor(), gate_up.tensor(), grad.tensor());
    EXPECT_EQ(y.values[0], T{2e4});
    EXPECT_EQ(y.values[1], T{0});
    EXPECT_EQ(grad.values[0], T{2});
    EXPECT_LE(std::abs(grad.values[1]), T{1e-20F});
    EXPECT_EQ(grad.values[4], T{1e4});
    for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(std::isnan(y.values[i]), i == 2);
        EXPECT_EQ(std::isnan(grad.values[i]), i == 2);
        EXPECT_EQ(std::isnan(grad.values[4 + i]), i == 2);
    }
    EXPECT_THROW(cpu->compute().swiglu_input_gradient(grad_y.tensor(), gate_up.tensor(), gate_up.tensor()),
                 Error);
}

TEST(SwigluBf16, IsFp32RoundedOnce) {
    const std::int64_t n = 5, width = 43;
    auto gate_up = random_pair(Shape{n, 2 * width}, 5, 6), grad_y = random_pair(Shape{n, width}, 6);
    Array<float> y(Shape{n, width}), grad(Shape{n, 2 * width});
    Array<BFloat16> y_half(Shape{n, width}), grad_half(Shape{n, 2 * width});
    const auto cpu = backend::make_cpu_backend(2);
    cpu->compute().swiglu_forward(gate_up.wide.tensor(), y.tensor());
    cpu->compute().swiglu_forward(gate_up.half.tensor(), y_half.tensor());
    cpu->compute().swiglu_input_gradient(grad_y.wide.tensor(), gate_up.wide.tensor(), grad.tensor());
    cpu->compute().swiglu_input_gradient(grad_y.half.tensor(), gate_up.half.tensor(), grad_half.tensor());
    EXPECT_TRUE(one_rounding(y_half, y.values));
    EXPECT_TRUE(one_rounding(grad_half, grad.values));
}

} // namespace
} // namespace trireme::test
