// RMS norm: against its formula in plain loops, gradients against finite differences, bf16 against fp32.
#include "bf16_cases.hpp"

namespace trireme::test {
namespace {

using backend::GradWrite;
constexpr double kEpsilon = 1e-5;

template <class T>
class RmsNorm : public testing::Test {};
using FloatTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(RmsNorm, FloatTypes);

template <class R>
struct Reference {
    std::vector<R> y, rstd, grad_x, grad_weight;
};

// y_c = x_c r w_c with r = (mean x^2 + epsilon)^(-1/2), so dr/dx_k = -r^3 x_k / C and
// grad_x_k = r (g_k w_k - r^2 x_k / C * sum over c of g_c w_c x_c).
template <class R>
Reference<R> reference(const std::vector<R>& x, const std::vector<R>& weight, const std::vector<R>& grad_y) {
    Reference<R> out;
    const std::size_t width = weight.size();
    out.grad_weight.assign(width, 0);
    for (std::size_t row = 0; row < x.size(); row += width) {
        R squares = 0, projection = 0;
        for (std::size_t c = 0; c < width; ++c) {
            squares += x[row + c] * x[row + c];
            projection += grad_y[row + c] * weight[c] * x[row + c];
        }
        const R rstd = 1 / std::sqrt(squares / static_cast<R>(width) + static_cast<R>(kEpsilon));
        out.rstd.push_back(rstd);
        for (std::size_t c = 0; c < width; ++c) {
            out.y.push_back(x[row + c] * rstd * weight[c]);
            out.grad_weight[c] += grad_y[row + c] * x[row + c] * rstd;
            out.grad_x.push_back(rstd * (grad_y[row + c] * weight[c] -
                                         rstd * rstd * x[row + c] / static_cast<R>(width) * projection));
        }
    }
    return out;
}

TYPED_TEST(RmsNorm, MatchesItsFormula) {
    using T = TypeParam;
    for (const auto& [n, width] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {1, 5}, {7, 33}, {90, 384}}) {
        auto x = random_array<T>(Shape{n, width}, 1, 3), weight = random_array<T>(Shape{width}, 2);
        auto grad_y = random_array<T>(Shape{n, width}, 4);
        const auto as = [&](auto zero) {
            using R = decltype(zero);
            return reference<R>(x.template as<R>(), weight.template as<R>(), grad_y.template as<R>());
        };
        const auto truth = as(0.0L);
        const auto plain = as(T{0});
        Array<T> y(Shape{n, width}), rstd(Shape{n});
        on_all_threads([&](backend::Operations& ops) {
            ops.rms_norm_forward(x.tensor(), weight.tensor(), kEpsilon, y.tensor(), rstd.tensor());
            std::vector<T> all = y.values;
            append(all, rstd);
            return all;
        });
        EXPECT_TRUE(within(y.values, truth.y, twice_plain_error(plain.y, truth.y))) << n << " x " << width;
        EXPECT_TRUE(within(rstd.values, truth.rstd, twice_plain_error(plain.rstd, truth.rstd)));

        const auto before = random_array<T>(Shape{n, width}, 5);
        const auto before_weight = random_array<T>(Shape{width}, 6);
        for (const GradWrite write : {GradWrite::overwrite, GradWrite::accumulate}) {
            Array<T> grad_x(Shape{n, width}), grad_weight(Shape{width});
            on_all_threads([&](backend::Operations& ops) {
                grad_x = before;
                grad_weight = before_weight;
                ops.rms_norm_input_gradient(grad_y.tensor(), x.tensor(), weight.tensor(), rstd.tensor(),
                                            grad_x.tensor(), write);
                ops.rms_norm_weight_gradient(grad_y.tensor(), x.tensor(), rstd.tensor(), grad_weight.tensor(),
                                             write);
                std::vector<T> all = grad_x.values;
                append(all, grad_weight);
                return all;
            });
            const auto expect = [&](const Array<T>& got, auto want, auto loop, const Array<T>& start) {
                if (write == GradWrite::accumulate)
                    for (std::size_t i = 0; i < want.size(); ++i) {
                        want[i] += start.values[i];
                        loop[i] += start.values[i];
                    }
                EXPECT_TRUE(within(got.values, want, twice_plain_error(loop, want))) << n << " x " << width;
            };
            expect(grad_x, truth.grad_x, plain.grad_x, before);
            expect(grad_weight, truth.grad_weight, plain.grad_weight, before_weight);
        }
    }
}

TEST(RmsNormGradient, MatchesFiniteDifferences) {
    const std::int64_t n = 3, width = 5;
    auto x = random_array<double>(Shape{n, width}, 7), weight = random_array<double>(Shape{width}, 8);
    auto grad_y = random_array<double>(Shape{n, width}, 10);
    Array<double> y(Shape{n, width}), rstd(Shape{n});
    const auto cpu = backend::make_cpu_backend(1);
    const auto loss = [&] {
        cpu->compute().rms_norm_forward(x.tensor(), weight.tensor(), kEpsilon, y.tensor(), rstd.tensor());
        return dot(y.values, grad_y.values);
    };
    const auto want_x = finite_differences(x.values, loss),
               want_weight = finite_differences(weight.values, loss);
    loss();
    Array<double> grad_x(Shape{n, width}), grad_weight(Shape{width});
    cpu->compute().rms_norm_input_gradient(grad_y.tensor(), x.tensor(), weight.tensor(), rstd.tensor(),
                                           grad_x.tensor(), GradWrite::overwrite);
    cpu->compute().rms_norm_weight_gradient(grad_y.tensor(), x.tensor(), rstd.tensor(), grad_weight.tensor(),
                                            GradWrite::overwrite);
    EXPECT_TRUE(within(grad_x.values, want_x, kFiniteDifferenceBound * largest(want_x)));
    EXPECT_TRUE(within(grad_weight.values, want_weight, kFiniteDifferenceBound));
}

TYPED_TEST(RmsNorm, NanStaysInItsRow) {
    using T = TypeParam;
    auto x = random_array<T>(Shape{3, 8}, 13);
    x.values[9] = std::numeric_limits<T>::quiet_NaN();
    Array<T> weight(Shape{8}, T{1}), y(Shape{3, 8}), rstd(Shape{3});
    backend::make_cpu_backend(2)->compute().rms_norm_forward(x.tensor(), weight.tensor(), kEpsilon,
                                                             y.tensor(), rstd.tensor());
    for (std::size_t i = 0; i < y.values.size(); ++i)
        EXPECT_EQ(std::isnan(y.values[i]), i / 8 == 1) << i;
}

TEST(RmsNormBf16, IsFp32RoundedOnce) {
    const std::int64_t n = 7, width = 45;
    auto x = random_pair(Shape{n, width}, 14, 3), weight = random_pair(Shape{width}, 15);
    auto grad_y = random_pair(Shape{n, width}, 16), before = random_pair(Shape{n, width}, 17);
    const auto cpu = backend::make_cpu_backend(2);
    auto& ops = cpu->compute();
    Array<float> y(Shape{n, width}), rstd(Shape{n}), rstd_half(Shape{n});
    Array<float> grad_weight(Shape{width}), grad_weight_half(Shape{width});
    Array<BFloat16> y_half(Shape{n, width});
    ops.rms_norm_forward(x.wide.tensor(), weight.wide.tensor(), kEpsilon, y.tensor(), rstd.tensor());
    ops.rms_norm_forward(x.half.tensor(), weight.half.tensor(), kEpsilon, y_half.tensor(),
                         rstd_half.tensor());
    EXPECT_TRUE(one_rounding(y_half, y.values));
    EXPECT_TRUE(within(rstd_half.values, rstd.values, 2 * 0x1p-24 * largest(rstd.values)));
    ops.rms_norm_input_gradient(grad_y.wide.tensor(), x.wide.tensor(), weight.wide.tensor(), rstd.tensor(),
                                before.wide.tensor(), GradWrite::accumulate);
    ops.rms_norm_input_gradient(grad_y.half.tensor(), x.half.tensor(), weight.half.tensor(), rstd.tensor(),
                                before.half.tensor(), GradWrite::accumulate);
    EXPECT_TRUE(one_rounding(before.half, before.wide.values));
    ops.rms_norm_weight_gradient(grad_y.wide.tensor(), x.wide.tensor(), rstd.tensor(), grad_weight.tensor(),
                                 GradWrite::overwrite);
    ops.rms_norm_weight_gradient(grad_y.half.tensor(), x.half.tensor(), rstd.tensor(),
                                 grad_weight_half.tensor(), GradWrite::overwrite);
    EXPECT_TRUE(within(grad_weight_half.values, grad_weight.values,
                       4 * 0x1p-24 * largest(grad_weight.values))); // main gradients stay in fp32
}

} // namespace
} // namespace trireme::test
