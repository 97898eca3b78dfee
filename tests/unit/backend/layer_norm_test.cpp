// Layer norm and GELU: against their formulas in plain loops, gradients against finite differences.
#include <numbers>

#include "cases.hpp"

namespace trireme::test {
namespace {

using backend::GradWrite;
constexpr double kEpsilon = 1e-5;

template <class T>
class Norm : public testing::Test {};
using FloatTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(Norm, FloatTypes);

template <class R>
struct Reference {
    std::vector<R> y, mean, rstd, grad_x, grad_weight, grad_bias;
};

// The formulas of Ba, Kiros and Hinton and of their derivatives, in plain loops.
template <class R>
Reference<R> reference(const std::vector<R>& x, const std::vector<R>& weight, const std::vector<R>& bias,
                       const std::vector<R>& grad_y) {
    Reference<R> out;
    const std::size_t width = weight.size();
    out.grad_weight.assign(width, 0);
    out.grad_bias.assign(width, 0);
    for (std::size_t row = 0; row < x.size(); row += width) {
        R mean = 0, variance = 0, mean_g = 0, mean_gx = 0;
        for (std::size_t c = 0; c < width; ++c)
            mean += x[row + c];
        mean /= static_cast<R>(width);
        for (std::size_t c = 0; c < width; ++c)
            variance += (x[row + c] - mean) * (x[row + c] - mean);
        const R rstd = 1 / std::sqrt(variance / static_cast<R>(width) + static_cast<R>(kEpsilon));
        out.mean.push_back(mean);
        out.rstd.push_back(rstd);
        for (std::size_t c = 0; c < width; ++c) {
            const R hat = (x[row + c] - mean) * rstd;
            out.y.push_back(hat * weight[c] + bias[c]);
            mean_g += grad_y[row + c] * weight[c] / static_cast<R>(width);
            mean_gx += grad_y[row + c] * weight[c] * hat / static_cast<R>(width);
            out.grad_weight[c] += grad_y[row + c] * hat;
            out.grad_bias[c] += grad_y[row + c];
        }
        for (std::size_t c = 0; c < width; ++c)
            out.grad_x.push_back(
                rstd * (grad_y[row + c] * weight[c] - mean_g - (x[row + c] - mean) * rstd * mean_gx));
    }
    return out;
}

TYPED_TEST(Norm, MatchesItsFormula) {
    using T = TypeParam;
    for (const auto& [n, width] :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {1, 5}, {7, 33}, {90, 384}, {300, 21}}) {
        auto x = random_array<T>(Shape{n, width}, 1, 3), weight = random_array<T>(Shape{width}, 2);
        auto bias = random_array<T>(Shape{width}, 3), grad_y = random_array<T>(Shape{n, width}, 4);
        for (T& value : x.values)
            value += T{2}; // a mean away from zero
        const auto as = [&](auto zero) {
            using R = decltype(zero);
            return reference<R>(x.template as<R>(), weight.template as<R>(), bias.template as<R>(),
                                grad_y.template as<R>());
        };
        const auto truth = as(0.0L);
        const auto plain = as(T{0});
        Array<T> y(Shape{n, width}), mean(Shape{n}), rstd(Shape{n});
        const auto forward = on_all_threads([&](backend::Operations& ops) {
            ops.layer_norm_forward(x.tensor(), weight.tensor(), bias.tensor(), kEpsilon, y.tensor(),
                                   mean.tensor(), rstd.tensor());
            std::vector<T> all = y.values;
            append(all, mean);
            append(all, rstd);
            return all;
        });
        EXPECT_TRUE(within(y.values, truth.y, twice_plain_error(plain.y, truth.y))) << n << " x " << width;
        EXPECT_TRUE(within(mean.values, truth.mean, twice_plain_error(plain.mean, truth.mean)));
        EXPECT_TRUE(within(rstd.values, truth.rstd, twice_plain_error(plain.rstd, truth.rstd)));

        const auto before = random_array<T>(Shape{n, width}, 5);
        const auto before_weight = random_array<T>(Shape{2, width}, 6);
        for (const GradWrite write : {GradWrite::overwrite, GradWrite::accumulate}) {
            Array<T> grad_x(Shape{n, width}), grad_weight(Shape{width}), grad_bias(Shape{width});
            on_all_threads([&](backend::Operations& ops) {
                grad_x = before;
                std::copy_n(before_weight.values.begin(), width, grad_weight.values.begin());
                std::copy_n(before_weight.values.begin() + width, width, grad_bias.values.begin());
                ops.layer_norm_input_gradient(grad_y.tensor(), x.tensor(), weight.tensor(), mean.tensor(),
                                              rstd.tensor(), grad_x.tensor(), write);
                ops.layer_norm_weight_gradient(grad_y.tensor(), x.tensor(), mean.tensor(), rstd.tensor(),
                                               grad_weight.tensor(), grad_bias.tensor(), write);
                std::vector<T> all = grad_x.values;
                append(all, grad_weight);
                append(all, grad_bias);
                return all;
            });
            const auto expect = [&](const Array<T>& got, const auto& want, const auto& loop, const T* start) {
                auto shifted_want = want;
                auto shifted_loop = loop;
                if (write == GradWrite::accumulate)
                    for (std::size_t i = 0; i < want.size(); ++i) {
                        shifted_want[i] += start[i];
                        shifted_loop[i] += start[i];
                    }
                EXPECT_TRUE(within(got.values, shifted_want, twice_plain_error(shifted_loop, shifted_want)))
                    << n << " x " << width;
            };
            expect(grad_x, truth.grad_x, plain.grad_x, before.values.data());
            expect(grad_weight, truth.grad_weight, plain.grad_weight, before_weight.values.data());
            expect(grad_bias, truth.grad_bias, plain.grad_bias, before_weight.values.data() + width);
        }
    }
}

TEST(NormGradient, MatchesFiniteDifferences) {
    const std::int64_t n = 3, width = 5;
    auto x = random_array<double>(Shape{n, width}, 7), weight = random_array<double>(Shape{width}, 8);
    auto bias = random_array<double>(Shape{width}, 9), grad_y = random_array<double>(Shape{n, width}, 10);
    Array<double> y(Shape{n, width}), mean(Shape{n}), rstd(Shape{n});
    const auto cpu = backend::make_cpu_backend(1);
    const auto loss = [&] {
        cpu->compute().layer_norm_forward(x.tensor(), weight.tensor(), bias.tensor(), kEpsilon, y.tensor(),
                                          mean.tensor(), rstd.tensor());
        return dot(y.values, grad_y.values);
    };
    const auto want_x = finite_differences(x.values, loss),
               want_weight = finite_differences(weight.values, loss);
    const auto want_bias = finite_differences(bias.values, loss);
    loss();
    Array<double> grad_x(Shape{n, width}), grad_weight(Shape{width}), grad_bias(Shape{width});
    cpu->compute().layer_norm_input_gradient(grad_y.tensor(), x.tensor(), weight.tensor(), mean.tensor(),
                                             rstd.tensor(), grad_x.tensor(), GradWrite::overwrite);
    cpu->compute().layer_norm_weight_gradient(grad_y.tensor(), x.tensor(), mean.tensor(), rstd.tensor(),
                                              grad_weight.tensor(), grad_bias.tensor(), GradWrite::overwrite);
    EXPECT_TRUE(within(grad_x.values, want_x, kFiniteDifferenceBound * largest(want_x)));
    EXPECT_TRUE(within(grad_weight.values, want_weight, kFiniteDifferenceBound));
    EXPECT_TRUE(within(grad_bias.values, want_bias, kFiniteDifferenceBound));
}

template <class R>
R gelu(R x) {
    const R u = std::sqrt(2 / std::numbers::pi_v<R>) * (x + static_cast<R>(0.044715L) * x * x * x);
    return x / 2 * (1 + std::tanh(u));
}
template <class R>
R gelu_derivative(R x) {
    const R root = std::sqrt(2 / std::numbers::pi_v<R>), cubic = static_cast<R>(0.044715L);
    const R tanh = std::tanh(root * (x + cubic * x * x * x));
    return (1 + tanh) / 2 + x / 2 * (1 - tanh * tanh) * root * (1 + 3 * cubic * x * x);
}

TYPED_TEST(Norm, GeluMatchesItsFormula) {
    using T = TypeParam;
    for (const std::int64_t count : {1, 15, 20011}) {
        auto x = random_array<T>(Shape{count}, 11, 12), grad_y = random_array<T>(Shape{count}, 12);
        if (count > 100)
            x.values[0] = 0, x.values[1] = T{1e4}, x.values[2] = T{-1e4};
        std::vector<T> plain, plain_grad;
        std::vector<long double> truth, truth_grad;
        for (std::size_t i = 0; i < x.values.size(); ++i) {
            const auto wide = static_cast<long double>(x.values[i]);
            plain.push_back(gelu(x.values[i]));
            truth.push_back(gelu(wide));
            plain_grad.push_back(grad_y.values[i] * gelu_derivative(x.values[i]));
            truth_grad.push_back(static_cast<long double>(grad_y.values[i]) * gelu_derivative(wide));
        }
        const auto forward = on_all_threads([&](backend::Operations& ops) {
            Array<T> y(Shape{count});
            ops.gelu_forward(x.tensor(), y.tensor());
            return y.values;
        });
        const auto gradient = on_all_threads([&](backend::Operations& ops) {
            auto grad_x = grad_y; // in place
            ops.gelu_input_gradient(grad_x.tensor(), x.tensor(), grad_x.tensor());
            return grad_x.values;
        });
        // Beyond |x| = 12 the function is x or 0, so the bound does not grow with the two large inputs.
        if (count > 100) {
            EXPECT_EQ(forward[1], T{1e4});
            EXPECT_EQ(forward[2], T{0});
            for (auto* values : {&truth, &truth_grad})
                (*values)[1] = (*values)[2] = 0;
            plain[1] = plain[2] = plain_grad[1] = plain_grad[2] = 0;
        }
        auto near = forward;
        if (count > 100)
            near[1] = near[2] = 0;
        auto near_gradient = gradient;
        if (count > 100) {
            EXPECT_EQ(gradient[1], grad_y.values[1]);
            EXPECT_LE(std::abs(gradient[2]), T{1e-20F});
            near_gradient[1] = near_gradient[2] = 0;
        }
        EXPECT_TRUE(within(near, truth, twice_plain_error(plain, truth)));
        EXPECT_TRUE(within(near_gradient, truth_grad, twice_plain_error(plain_grad, truth_grad)));
    }
}

TYPED_TEST(Norm, NanStaysInItsRow) {
    using T = TypeParam;
    auto x = random_array<T>(Shape{3, 8}, 13);
    x.values[9] = std::numeric_limits<T>::quiet_NaN();
    Array<T> weight(Shape{8}, T{1}), bias(Shape{8}), y(Shape{3, 8}), mean(Shape{3}), rstd(Shape{3});
    const auto cpu = backend::make_cpu_backend(2);
    cpu->compute().layer_norm_forward(x.tensor(), weight.tensor(), bias.tensor(), kEpsilon, y.tensor(),
                                      mean.tensor(), rstd.tensor());
    for (std::size_t i = 0; i < y.values.size(); ++i)
        EXPECT_EQ(std::isnan(y.values[i]), i / 8 == 1) << i;
    cpu->compute().gelu_forward(x.tensor(), y.tensor());
    for (std::size_t i = 0; i < y.values.size(); ++i)
        EXPECT_EQ(std::isnan(y.values[i]), i == 9) << i;
}

} // namespace
} // namespace trireme::test
