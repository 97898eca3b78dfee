// Matrix products, bias sums, embeddings: against plain loops, at odd sizes, on several thread counts.
#include "cases.hpp"

namespace trireme::test {
namespace {

using backend::GradWrite;

template <class T>
class Linear : public testing::Test {};
using FloatTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(Linear, FloatTypes);

struct Sizes {
    std::int64_t n, in, out;
};
// The last is cut into several tiles in both directions.
constexpr Sizes kSizes[] = {{1, 1, 1}, {1, 7, 5}, {5, 1, 3}, {13, 17, 9}, {70, 33, 129}, {800, 9, 1601}};

// sum over k of a(i, k) * b(k, j) + start(i, j)
template <class R, class A, class B, class Start>
std::vector<R> product(std::int64_t m, std::int64_t n, std::int64_t k, const A& a, const B& b,
                       const Start& start) {
    std::vector<R> out;
    for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
            R sum = static_cast<R>(start(i, j));
            for (std::int64_t l = 0; l < k; ++l)
                sum += static_cast<R>(a(i, l)) * static_cast<R>(b(l, j));
            out.push_back(sum);
        }
    return out;
}

template <class T>
void expect_product(const std::vector<T>& got, std::int64_t m, std::int64_t n, std::int64_t k, auto a, auto b,
                    auto start) {
    const auto truth = product<long double>(m, n, k, a, b, start);
    EXPECT_TRUE(within(got, truth, twice_plain_error(product<T>(m, n, k, a, b, start), truth)))
        << m << " x " << n << " x " << k;
}

auto element(const auto& array, std::int64_t width) {
    return [&array, width](std::int64_t i, std::int64_t j) {
        return array.values[static_cast<std::size_t>(i * width + j)];
    };
}
auto transposed(const auto& array, std::int64_t width) {
    return [&array, width](std::int64_t i, std::int64_t j) {
        return array.values[static_cast<std::size_t>(j * width + i)];
    };
}
constexpr auto kNothing = [](std::int64_t, std::int64_t) { return 0.0; };

TYPED_TEST(Linear, Forward) {
    using T = TypeParam;
    for (const auto [n, in, out] : kSizes) {
        auto x = random_array<T>(Shape{n, in}, 1), weight = random_array<T>(Shape{out, in}, 2);
        auto bias = random_array<T>(Shape{out}, 3);
        for (const bool with_bias : {false, true}) {
            const auto got = on_all_threads([&](backend::Operations& ops) {
                Array<T> y(Shape{n, out}, std::numeric_limits<T>::quiet_NaN()); // must be overwritten
                ops.linear_forward(x.tensor(), weight.tensor(), with_bias ? bias.tensor() : Tensor{},
                                   y.tensor());
                return y.values;
            });
            expect_product(got, n, out, in, element(x, in), transposed(weight, in),
                           [&](std::int64_t, std::int64_t j) {
                               return with_bias ? bias.values[static_cast<std::size_t>(j)] : T{0};
                           });
        }
    }
}

TYPED_TEST(Linear, InputGradient) {
    using T = TypeParam;
    for (const auto [n, in, out] : kSizes) {
        auto grad_y = random_array<T>(Shape{n, out}, 4), weight = random_array<T>(Shape{out, in}, 5);
        const auto got = on_all_threads([&](backend::Operations& ops) {
            Array<T> grad_x(Shape{n, in}, std::numeric_limits<T>::quiet_NaN());
            ops.linear_input_gradient(grad_y.tensor(), weight.tensor(), grad_x.tensor());
            return grad_x.values;
        });
        expect_product(got, n, in, out, element(grad_y, out), element(weight, in), kNothing);
    }
}

TYPED_TEST(Linear, WeightGradientOverwritesOrAdds) {
    using T = TypeParam;
    for (const auto [n, in, out] : kSizes) {
        auto x = random_array<T>(Shape{n, in}, 6), grad_y = random_array<T>(Shape{n, out}, 7);
        const auto before = random_array<T>(Shape{out, in}, 8);
        for (const GradWrite write : {GradWrite::overwrite, GradWrite::accumulate}) {
            const auto got = on_all_threads([&](backend::Operations& ops) {
                auto grad = before;
                if (write == GradWrite::overwrite)
                    grad.values.assign(grad.values.size(), std::numeric_limits<T>::quiet_NaN());
                ops.linear_weight_gradient(x.tensor(), grad_y.tensor(), grad.tensor(), write);
                return grad.values;
            });
            const auto start = element(before, in);
            expect_product(got, out, in, n, transposed(grad_y, out), element(x, in),
                           [&](std::int64_t i, std::int64_t j) {
                               return write == GradWrite::accumulate ? start(i, j) : T{0};
                           });
        }
    }
}

TYPED_TEST(Linear, BiasGradientSumsColumns) {
    using T = TypeParam;
    for (const auto [n, in, out] : kSizes) {
        auto grad_y = random_array<T>(Shape{n, out}, 9);
        const auto before = random_array<T>(Shape{out}, 10);
        for (const GradWrite write : {GradWrite::overwrite, GradWrite::accumulate}) {
            const auto got = on_all_threads([&](backend::Operations& ops) {
                auto grad = before;
                ops.bias_gradient(grad_y.tensor(), grad.tensor(), write);
                return grad.values;
            });
            const auto start = element(before, 1);
            expect_product(
                got, out, 1, n, transposed(grad_y, out), [](std::int64_t, std::int64_t) { return T{1}; },
                [&](std::int64_t i, std::int64_t) {
                    return write == GradWrite::accumulate ? start(i, 0) : T{0};
                });
        }
    }
}

TYPED_TEST(Linear, TheResidualIsAddedBehindTheProduct) {
    using T = TypeParam;
    for (const auto [n, in, out] : kSizes) {
        auto x = random_array<T>(Shape{n, in}, 13), weight = random_array<T>(Shape{out, in}, 14),
             bias = random_array<T>(Shape{out}, 15), residual = random_array<T>(Shape{n, out}, 16);
        for (const bool with_bias : {false, true}) {
            const auto got = on_all_threads([&](backend::Operations& ops) {
                Array<T> y(Shape{n, out}, std::numeric_limits<T>::quiet_NaN());
                ops.linear_residual_forward(x.tensor(), weight.tensor(), with_bias ? bias.tensor() : Tensor{},
                                            residual.tensor(), y.tensor());
                return y.values;
            });
            const auto carried = element(residual, out);
            expect_product(got, n, out, in, element(x, in), transposed(weight, in),
                           [&](std::int64_t i, std::int64_t j) {
                               return static_cast<long double>(carried(i, j)) +
                                      (with_bias ? bias.values[static_cast<std::size_t>(j)] : T{0});
                           });
        }
    }
}

TYPED_TEST(Linear, LeadingAxesCountAsRowsAndNanSpreadsAlongItsRow) {
    using T = TypeParam;
    auto x = random_array<T>(Shape{3, 2, 4}, 11), weight = random_array<T>(Shape{5, 4}, 12);
    x.values[4 * 3 + 2] = std::numeric_limits<T>::quiet_NaN(); // row 3
    Array<T> y(Shape{3, 2, 5});
    backend::make_cpu_backend(2)->compute().linear_forward(x.tensor(), weight.tensor(), {}, y.tensor());
    for (std::size_t i = 0; i < y.values.size(); ++i)
        EXPECT_EQ(std::isnan(y.values[i]), i / 5 == 3) << i;
}

// Integer-valued data make every sum exact: a matrix product must then agree to the bit with plain loops.
TYPED_TEST(Linear, IntegersAreExact) {
    using T = TypeParam;
    const std::int64_t n = 65, in = 514, out = 261;
    auto x = random_array<T>(Shape{n, in}, 13, 8), weight = random_array<T>(Shape{out, in}, 14, 8);
    for (auto* array : {&x, &weight})
        for (T& value : array->values)
            value = std::round(value);
    Array<T> y(Shape{n, out});
    backend::make_cpu_backend(2)->compute().linear_forward(x.tensor(), weight.tensor(), {}, y.tensor());
    EXPECT_TRUE(
        within(y.values, product<double>(n, out, in, element(x, in), transposed(weight, in), kNothing), 0));
}

TYPED_TEST(Linear, EmbeddingCopiesHeldRowsAndZeros) {
    using T = TypeParam;
    const std::int64_t length = 5, batch = 3, width = 7, first = 10, held = 6;
    auto tokens = random_tokens(Shape{length, batch}, 15, 24);
    tokens.values[0] = 9, tokens.values[1] = 10, tokens.values[2] = 15, tokens.values[3] = 16; // the edges
    auto table = random_array<T>(Shape{held, width}, 16);
    const auto got = on_all_threads([&](backend::Operations& ops) {
        Array<T> out(Shape{length, batch, width}, T{9});
        ops.embedding_forward(tokens.tensor(), table.tensor(), first, out.tensor());
        return out.values;
    });
    auto grad_out = random_array<T>(Shape{length, batch, width}, 17);
    const auto before = random_array<T>(Shape{held, width}, 18);
    const auto grad = on_all_threads([&](backend::Operations& ops) {
        auto grad_table = before;
        ops.embedding_weight_gradient(tokens.tensor(), grad_out.tensor(), first, grad_table.tensor());
        return grad_table.values;
    });
    auto want_grad = before.values;
    for (std::size_t i = 0; i < tokens.values.size(); ++i)
        for (std::size_t c = 0; c < static_cast<std::size_t>(width); ++c) {
            const std::int64_t row = tokens.values[i] - first;
            const bool here = row >= 0 && row < held;
            const std::size_t at = static_cast<std::size_t>(std::max<std::int64_t>(row, 0) * width) + c;
            EXPECT_EQ(got[i * static_cast<std::size_t>(width) + c], here ? table.values[at] : T{0});
            if (here)
                want_grad[at] += grad_out.values[i * static_cast<std::size_t>(width) + c];
        }
    EXPECT_EQ(grad, want_grad); // the same order of sums, so the same bits
}

TYPED_TEST(Linear, PositionsAddTheirRows) {
    using T = TypeParam;
    const std::int64_t length = 4, batch = 3, width = 5, first = 2;
    auto table = random_array<T>(Shape{7, width}, 19), x = random_array<T>(Shape{length, batch, width}, 20);
    const auto before = x;
    const auto got = on_all_threads([&](backend::Operations& ops) {
        auto sum = before;
        ops.position_forward(table.tensor(), first, sum.tensor());
        return sum.values;
    });
    const auto grad = on_all_threads([&](backend::Operations& ops) {
        auto grad_table = table;
        ops.position_weight_gradient(x.tensor(), first, grad_table.tensor());
        return grad_table.values;
    });
    auto want = table.values;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const std::size_t at = (i / 15 + 2) * 5 + i % 5; // 15 = batch * width
        EXPECT_EQ(got[i], before.values[i] + table.values[at]);
        want[at] += x.values[i];
    }
    EXPECT_EQ(grad, want);
    EXPECT_THROW(backend::make_cpu_backend(1)->compute().position_forward(table.tensor(), 4, x.tensor()),
                 Error);
}

} // namespace
} // namespace trireme::test
