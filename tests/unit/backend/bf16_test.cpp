// Operations on bf16 and fp16: the result is that of fp32 on the same values, rounded once; statistics and
// main gradients are fp32. RMS norm, SwiGLU and rotary have such a test in their own files.
#include "backend/cpu/stored.hpp"
#include "bf16_cases.hpp"

namespace trireme::test {
namespace {

using backend::Attention;
using backend::Causal;
using backend::Dropout;
using backend::DropoutSite;
using backend::GradWrite;

// Sums of k products of numbers up to 1 in another order: each of k additions errs by 2^-24 of a partial sum,
// which stays some sqrt(k) / the largest result's size; a plain bound, relative to the largest result.
double sum_slack(std::int64_t k) {
    return 2 * std::sqrt(static_cast<double>(k)) * 0x1p-24;
}

testing::AssertionResult same_bits(const Array<float>& got, const Array<float>& want) {
    return within(got.values, want.values, 0);
}

template <class S>
class Narrow : public testing::Test {
  protected:
    std::unique_ptr<backend::Backend> cpu_ = backend::make_cpu_backend(2);
    backend::Operations& ops_ = cpu_->compute();
};
using NarrowTypes = testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(Narrow, NarrowTypes);

TYPED_TEST(Narrow, LinearIsFp32RoundedOnce) {
    using S = TypeParam;
    backend::Operations& ops_ = this->ops_;
    struct Size {
        std::int64_t n, in, out;
    };
    for (const auto [n, in, out] :
         {Size{1, 1, 1}, {7, 5, 3}, {130, 70, 2050}, {33, 2500, 40}, {900, 20, 60}}) {
        auto x = random_pair<S>(Shape{n, in}, 1), weight = random_pair<S>(Shape{out, in}, 2);
        auto bias = random_pair<S>(Shape{out}, 3), grad_y = random_pair<S>(Shape{n, out}, 4);
        const auto label = concat(n, " x ", in, " -> ", out);
        for (const bool with_bias : {false, true}) {
            Array<float> want(Shape{n, out});
            Array<S> got(Shape{n, out});
            ops_.linear_forward(x.wide.tensor(), weight.wide.tensor(),
                                with_bias ? bias.wide.tensor() : Tensor(), want.tensor());
            on_all_threads([&](backend::Operations& ops) {
                ops.linear_forward(x.half.tensor(), weight.half.tensor(),
                                   with_bias ? bias.half.tensor() : Tensor(), got.tensor());
                return got.values;
            });
            EXPECT_TRUE(one_rounding(got, want.values, sum_slack(in))) << label;
        }
        Array<float> want_x(Shape{n, in});
        Array<S> got_x(Shape{n, in});
        ops_.linear_input_gradient(grad_y.wide.tensor(), weight.wide.tensor(), want_x.tensor());
        on_all_threads([&](backend::Operations& ops) {
            ops.linear_input_gradient(grad_y.half.tensor(), weight.half.tensor(), got_x.tensor());
            return got_x.values;
        });
        EXPECT_TRUE(one_rounding(got_x, want_x.values, sum_slack(out))) << label;

        const auto before = random_array<float>(Shape{out, in}, 5),
                   before_bias = random_array<float>(Shape{out}, 6);
        for (const GradWrite write : {GradWrite::overwrite, GradWrite::accumulate}) {
            auto want = before, got = before;
            auto want_bias = before_bias, got_bias = before_bias;
            ops_.linear_weight_gradient(x.wide.tensor(), grad_y.wide.tensor(), want.tensor(), write);
            ops_.bias_gradient(grad_y.wide.tensor(), want_bias.tensor(), write);
            on_all_threads([&](backend::Operations& ops) {
                got = before;
                ops.linear_weight_gradient(x.half.tensor(), grad_y.half.tensor(), got.tensor(), write);
                return got.values;
            });
            on_all_threads([&](backend::Operations& ops) {
                got_bias = before_bias;
                ops.bias_gradient(grad_y.half.tensor(), got_bias.tensor(), write);
                return got_bias.values;
            });
            EXPECT_TRUE(within(got.values, want.values, sum_slack(n) * largest(want.values))) << label;
            EXPECT_TRUE(same_bits(got_bias, want_bias)) << label;
        }
    }
}

TYPED_TEST(Narrow, EmbeddingsCopyAndGradientsStayInFp32) {
    using S = TypeParam;
    backend::Operations& ops_ = this->ops_;
    const std::int64_t length = 5, batch = 3, width = 19, rows = 6;
    auto tokens = random_tokens(Shape{length, batch}, 7, 9); // 6, 7, 8 are held elsewhere
    auto table = random_pair<S>(Shape{rows, width}, 8),
         grad_out = random_pair<S>(Shape{length, batch, width}, 9);
    Array<S> out(Shape{length, batch, width}, S(9.0F));
    Array<float> want(Shape{length, batch, width});
    ops_.embedding_forward(tokens.tensor(), table.half.tensor(), 0, out.tensor());
    ops_.embedding_forward(tokens.tensor(), table.wide.tensor(), 0, want.tensor());
    EXPECT_TRUE(same_bits(widened(out), want));
    ops_.position_forward(table.half.tensor(), 1, out.tensor());
    ops_.position_forward(table.wide.tensor(), 1, want.tensor());
    EXPECT_TRUE(one_rounding(out, want.values));
    const auto before = random_array<float>(Shape{rows, width}, 10);
    auto grad = before, want_grad = before;
    for (auto* const one : {&grad, &want_grad}) {
        const Tensor from = one == &grad ? grad_out.half.tensor() : grad_out.wide.tensor();
        ops_.embedding_weight_gradient(tokens.tensor(), from, 0, one->tensor());
        ops_.position_weight_gradient(from, 1, one->tensor());
    }
    EXPECT_TRUE(same_bits(grad, want_grad));
}

TYPED_TEST(Narrow, LayerNormIsFp32RoundedOnce) {
    using S = TypeParam;
    backend::Operations& ops_ = this->ops_;
    const std::int64_t n = 7, width = 45;
    auto x = random_pair<S>(Shape{n, width}, 11, 3), weight = random_pair<S>(Shape{width}, 12);
    auto bias = random_pair<S>(Shape{width}, 13), grad_y = random_pair<S>(Shape{n, width}, 14);
    Array<float> y(Shape{n, width}), mean(Shape{n}), rstd(Shape{n}), mean_half(Shape{n}), rstd_half(Shape{n});
    Array<S> y_half(Shape{n, width});
    ops_.layer_norm_forward(x.wide.tensor(), weight.wide.tensor(), bias.wide.tensor(), 1e-5, y.tensor(),
                            mean.tensor(), rstd.tensor());
    ops_.layer_norm_forward(x.half.tensor(), weight.half.tensor(), bias.half.tensor(), 1e-5, y_half.tensor(),
                            mean_half.tensor(), rstd_half.tensor());
    EXPECT_TRUE(one_rounding(y_half, y.values));
    EXPECT_TRUE(within(mean_half.values, mean.values, 2 * 0x1p-24 * largest(mean.values)));
    EXPECT_TRUE(within(rstd_half.values, rstd.values, 2 * 0x1p-24 * largest(rstd.values)));
    for (const GradWrite write : {GradWrite::overwrite, GradWrite::accumulate}) {
        auto grad = random_pair<S>(Shape{n, width}, 15);
        Array<float> grad_weight(Shape{width}), grad_bias(Shape{width});
        auto grad_weight_half = grad_weight, grad_bias_half = grad_bias;
        ops_.layer_norm_input_gradient(grad_y.wide.tensor(), x.wide.tensor(), weight.wide.tensor(),
                                       mean.tensor(), rstd.tensor(), grad.wide.tensor(), write);
        ops_.layer_norm_input_gradient(grad_y.half.tensor(), x.half.tensor(), weight.half.tensor(),
                                       mean.tensor(), rstd.tensor(), grad.half.tensor(), write);
        EXPECT_TRUE(one_rounding(grad.half, grad.wide.values));
        ops_.layer_norm_weight_gradient(grad_y.wide.tensor(), x.wide.tensor(), mean.tensor(), rstd.tensor(),
                                        grad_weight.tensor(), grad_bias.tensor(), write);
        ops_.layer_norm_weight_gradient(grad_y.half.tensor(), x.half.tensor(), mean.tensor(), rstd.tensor(),
                                        grad_weight_half.tensor(), grad_bias_half.tensor(), write);
        EXPECT_TRUE(
            within(grad_weight_half.values, grad_weight.values, 4 * 0x1p-24 * largest(grad_weight.values)));
        EXPECT_TRUE(same_bits(grad_bias_half, grad_bias));
    }
}

TYPED_TEST(Narrow, GeluIsFp32RoundedOnce) {
    using S = TypeParam;
    backend::Operations& ops_ = this->ops_;
    auto x = random_pair<S>(Shape{1003}, 16, 6), grad_y = random_pair<S>(Shape{1003}, 17);
    Array<float> y(Shape{1003}), grad(Shape{1003});
    Array<S> y_half(Shape{1003}), grad_half(Shape{1003});
    ops_.gelu_forward(x.wide.tensor(), y.tensor());
    ops_.gelu_forward(x.half.tensor(), y_half.tensor());
    ops_.gelu_input_gradient(grad_y.wide.tensor(), x.wide.tensor(), grad.tensor());
    ops_.gelu_input_gradient(grad_y.half.tensor(), x.half.tensor(), grad_half.tensor());
    EXPECT_TRUE(one_rounding(y_half, y.values));
    EXPECT_TRUE(one_rounding(grad_half, grad.values));
}

TYPED_TEST(Narrow, DropoutDrawsTheSameMaskAndRoundsOnce) {
    using S = TypeParam;
    backend::Operations& ops_ = this->ops_;
    const Shape shape{5, 2, 37};
    auto x = random_pair<S>(shape, 18), residual = random_pair<S>(shape, 19),
         bias = random_pair<S>(Shape{37}, 20);
    for (const double probability : {0.0, 0.3}) {
        const Dropout dropout{probability, 77, DropoutSite::mlp_output, 2, 10, 4};
        Array<float> out(shape), grad(shape);
        Array<S> out_half(shape), grad_half(shape);
        ops_.bias_dropout_residual(x.wide.tensor(), bias.wide.tensor(), residual.wide.tensor(), dropout,
                                   out.tensor());
        ops_.bias_dropout_residual(x.half.tensor(), bias.half.tensor(), residual.half.tensor(), dropout,
                                   out_half.tensor());
        ops_.dropout_gradient(x.wide.tensor(), dropout, grad.tensor());
        ops_.dropout_gradient(x.half.tensor(), dropout, grad_half.tensor());
        EXPECT_TRUE(one_rounding(out_half, out.values)) << probability;
        EXPECT_TRUE(one_rounding(grad_half, grad.values)) << probability;
    }
}

TYPED_TEST(Narrow, CrossEntropyHasFp32StatisticsAndRoundsItsGradientOnce) {
    using S = TypeParam;
    backend::Operations& ops_ = this->ops_;
    const std::int64_t n = 9, width = 53, valid = 50, first_row = 100;
    auto logits = random_pair<S>(Shape{n, width}, 21, 8);
    auto targets = random_tokens(Shape{n}, 22, 60); // some beyond these rows
    for (std::int32_t& target : targets.values)
        target += static_cast<std::int32_t>(first_row);
    Array<float> mask(Shape{n}, 1.0F), maximum(Shape{n}), sums(Shape{2, n});
    mask.values[3] = 0;
    auto maximum_half = maximum, sums_half = sums;
    ops_.cross_entropy_maximum(logits.wide.tensor(), valid, maximum.tensor());
    ops_.cross_entropy_maximum(logits.half.tensor(), valid, maximum_half.tensor());
    EXPECT_TRUE(same_bits(maximum_half, maximum));
    ops_.cross_entropy_sums(logits.wide.tensor(), valid, targets.tensor(), first_row, maximum.tensor(),
                            sums.tensor());
    ops_.cross_entropy_sums(logits.half.tensor(), valid, targets.tensor(), first_row, maximum.tensor(),
                            sums_half.tensor());
    EXPECT_TRUE(within(sums_half.values, sums.values, 4 * 0x1p-24 * largest(sums.values)));
    ops_.cross_entropy_gradient(logits.wide.tensor(), valid, targets.tensor(), first_row, maximum.tensor(),
                                sums.tensor(), mask.tensor(), 0.25);
    ops_.cross_entropy_gradient(logits.half.tensor(), valid, targets.tensor(), first_row, maximum.tensor(),
                                sums.tensor(), mask.tensor(), 0.25);
    EXPECT_TRUE(one_rounding(logits.half, logits.wide.values, 0x1p-24));
}

TYPED_TEST(Narrow, AttentionIsFp32RoundedOnce) {
    using S = TypeParam;
    backend::Operations& ops_ = this->ops_;
    struct Case {
        std::int64_t length, batch, heads, groups, dim;
        Causal causal;
        double dropout;
        bool documents;
    };
    for (const Case& c : {Case{1, 1, 1, 1, 1, Causal::yes, 0, false},
                          {130, 2, 4, 2, 24, Causal::yes, 0.1, false},
                          {300, 1, 2, 1, 9, Causal::no, 0, false},
                          {330, 1, 2, 2, 16, Causal::yes, 0.2, true}}) {
        const Dropout dropout{c.dropout, 5, DropoutSite::attention_weights, 1, 3, 0};
        Array<std::int32_t> documents(Shape{c.length, c.batch});
        for (std::int64_t i = 0; i < documents.shape.elements(); ++i)
            documents.values[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i / c.batch / 70 * 70);
        const Attention attention{c.heads,
                                  c.groups,
                                  c.dim,
                                  0,
                                  1 / std::sqrt(static_cast<double>(c.dim)),
                                  c.causal,
                                  dropout,
                                  c.documents ? documents.tensor() : Tensor()};
        auto qkv = random_pair<S>(Shape{c.length, c.batch, c.heads + 2 * c.groups, c.dim}, 23, 2);
        auto grad_out = random_pair<S>(Shape{c.length, c.batch, c.heads, c.dim}, 24);
        Array<float> out(grad_out.wide.shape), logsumexp(Shape{c.batch, c.heads, c.length}),
            grad(qkv.wide.shape);
        Array<float> logsumexp_half(logsumexp.shape);
        Array<S> out_half(out.shape), grad_half(grad.shape);
        ops_.attention_forward(qkv.wide.tensor(), attention, out.tensor(), logsumexp.tensor());
        on_all_threads([&](backend::Operations& ops) {
            ops.attention_forward(qkv.half.tensor(), attention, out_half.tensor(), logsumexp_half.tensor());
            return out_half.values;
        });
        const double slack = sum_slack(c.length);
        EXPECT_TRUE(one_rounding(out_half, out.values, slack)) << c.length;
        EXPECT_TRUE(within(logsumexp_half.values, logsumexp.values, slack * largest(logsumexp.values)));
        // Backward of both from one (rounded) output, so that only its own rounding differs.
        auto rounded_out = widened(out_half);
        ops_.attention_input_gradient(grad_out.wide.tensor(), qkv.wide.tensor(), rounded_out.tensor(),
                                      logsumexp.tensor(), attention, grad.tensor());
        on_all_threads([&](backend::Operations& ops) {
            ops.attention_input_gradient(grad_out.half.tensor(), qkv.half.tensor(), out_half.tensor(),
                                         logsumexp.tensor(), attention, grad_half.tensor());
            return grad_half.values;
        });
        EXPECT_TRUE(one_rounding(grad_half, grad.values, slack)) << c.length;
    }
}

// The vector store of one product: 1 * value, on values that lie between two bf16.
TEST(Bf16Rounding, IsToNearestEvenInVectorsAndTails) {
    const float nan = std::numeric_limits<float>::quiet_NaN(),
                infinity = std::numeric_limits<float>::infinity();
    const std::vector<float> kinds{
        1 + 0x1p-8F, 1 + 3 * 0x1p-8F, 1 + 0x1p-8F + 0x1p-23F, nan,  infinity, -infinity, 3.4e38F,
        -0.0F,       0x1p-130F,       1 + 0x1p-8F - 0x1p-23F, -3.3F};
    const std::vector<float> want{1.0F,     1 + 0x1p-6F, 1 + 0x1p-7F, nan,  infinity,  -infinity,
                                  infinity, -0.0F,       0x1p-130F,   1.0F, -3.296875F};
    std::vector<float> values, expected;
    for (std::size_t i = 0; i < 3; ++i) { // 33 values: vectors and a tail
        values.insert(values.end(), kinds.begin(), kinds.end());
        expected.insert(expected.end(), want.begin(), want.end());
    }
    std::vector<BFloat16> got(values.size());
    backend::narrow_values(values.data(), static_cast<std::int64_t>(values.size()), got.data());
    std::vector<float> back(values.size());
    backend::widen_values(got.data(), static_cast<std::int64_t>(got.size()), back.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_EQ(got[i].bits, BFloat16(values[i]).bits) << values[i];
        if (std::isnan(expected[i]))
            EXPECT_TRUE(std::isnan(back[i]));
        else
            EXPECT_EQ(back[i], expected[i]) << values[i];
    }
}

TYPED_TEST(Narrow, SumOfSquaresIsExactInFp64) {
    using S = TypeParam;
    backend::Operations& ops_ = this->ops_;
    auto x = random_pair<S>(Shape{3001}, 25);
    Array<double> got(Shape{1}), want(Shape{1});
    ops_.sum_of_squares(x.half.tensor(), got.tensor(), GradWrite::overwrite);
    ops_.sum_of_squares(x.wide.tensor(), want.tensor(), GradWrite::overwrite);
    EXPECT_EQ(got.values, want.values);
}

} // namespace
} // namespace trireme::test
