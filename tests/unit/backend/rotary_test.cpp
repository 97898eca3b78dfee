// Rotary embedding as multiplication of complex numbers, learned positions looked up per token, bf16 against
// fp32.
#include <complex>

#include "bf16_cases.hpp"

namespace trireme::test {
namespace {

using backend::RotaryDirection;

template <class T>
class Positions : public testing::Test {};
using FloatTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(Positions, FloatTypes);

struct Case {
    std::int64_t length, batch, heads, groups, dim, rotated;
};
constexpr Case kCases[] = {
    {1, 1, 1, 1, 2, 2}, {5, 3, 4, 2, 6, 4}, {70, 2, 3, 1, 64, 64}, {33, 1, 8, 2, 20, 10}};
constexpr std::int64_t kRows = 100;

long double angle(std::int64_t position, std::int64_t i) {
    return static_cast<long double>(position) * std::pow(1.3L, -static_cast<long double>(i));
}
template <class T>
Array<T> make_table(std::int64_t rotated) {
    Array<T> table(Shape{kRows, rotated});
    for (std::int64_t p = 0; p < kRows; ++p)
        for (std::int64_t i = 0; i < rotated / 2; ++i) {
            table.values[static_cast<std::size_t>(p * rotated + i)] = static_cast<T>(std::cos(angle(p, i)));
            table.values[static_cast<std::size_t>(p * rotated + rotated / 2 + i)] =
                static_cast<T>(std::sin(angle(p, i)));
        }
    return table;
}

// (x + i y) e^(i angle) for each pair of dimensions.
std::vector<long double> turned(const Case& c, std::vector<long double> qkv,
                                const std::vector<std::int64_t>& at) {
    const std::int64_t packed = c.heads + 2 * c.groups;
    for (std::int64_t r = 0; r < c.length * c.batch; ++r)
        for (std::int64_t head = 0; head < c.heads + c.groups; ++head)
            for (std::int64_t i = 0; i < c.rotated / 2; ++i) {
                const auto low = static_cast<std::size_t>((r * packed + head) * c.dim + i);
                const auto high = low + static_cast<std::size_t>(c.rotated / 2);
                const auto point = std::complex<long double>(qkv[low], qkv[high]) *
                                   std::polar(1.0L, angle(at[static_cast<std::size_t>(r)], i));
                qkv[low] = point.real();
                qkv[high] = point.imag();
            }
    return qkv;
}

TYPED_TEST(Positions, RotaryTurnsPairsAndBackwardTurnsThemBack) {
    using T = TypeParam;
    // A table entry is off by half a unit, each of two products and their sum by another half: less than 4
    // units of a pair's length, which is at most sqrt(2).
    const long double bound = 4 * std::numeric_limits<T>::epsilon() * std::sqrt(2.0L);
    for (const Case& c : kCases) {
        const Shape shape{c.length, c.batch, c.heads + 2 * c.groups, c.dim};
        auto table = make_table<T>(c.rotated);
        const auto before = random_array<T>(shape, 1);
        auto positions = random_tokens(Shape{c.length, c.batch}, 2, kRows);
        for (const bool given : {true, false}) {
            constexpr std::int64_t kFirst = 17;
            std::vector<std::int64_t> at(positions.values.begin(), positions.values.end());
            if (!given)
                for (std::size_t r = 0; r < at.size(); ++r)
                    at[r] = kFirst + static_cast<std::int64_t>(r) / c.batch;
            const Tensor places = given ? positions.tensor() : Tensor();
            auto qkv = before;
            on_all_threads([&](backend::Operations& ops) {
                qkv = before;
                ops.rotary(qkv.tensor(), c.heads + c.groups, table.tensor(), places, kFirst,
                           RotaryDirection::forward);
                return qkv.values;
            });
            EXPECT_TRUE(within(qkv.values, turned(c, before.template as<long double>(), at), bound));
            on_all_threads([&](backend::Operations& ops) {
                auto back = qkv;
                ops.rotary(back.tensor(), c.heads + c.groups, table.tensor(), places, kFirst,
                           RotaryDirection::backward);
                EXPECT_TRUE(within(back.values, before.values, 2 * bound));
                return back.values;
            });
        }
    }
}

TYPED_TEST(Positions, RotaryRefusesPositionsOutsideItsTable) {
    using T = TypeParam;
    auto table = make_table<T>(4);
    Array<T> qkv(Shape{2, 1, 3, 4});
    Array<std::int32_t> positions(Shape{2, 1}, 100);
    const auto cpu = backend::make_cpu_backend(2);
    const auto rotary = [&](const Tensor& places, std::int64_t first) {
        cpu->compute().rotary(qkv.tensor(), 2, table.tensor(), places, first, RotaryDirection::forward);
    };
    EXPECT_THROW(rotary({}, 99), Error);
    EXPECT_THROW(rotary({}, -1), Error);
    EXPECT_THROW(rotary(positions.tensor(), 0), Error);
    EXPECT_NO_THROW(rotary({}, 98));
}

// What the embedding is for: a score depends on the distance of query and key only.
TEST(Rotary, ScoresDependOnDistance) {
    auto table = make_table<double>(8);
    const auto cpu = backend::make_cpu_backend(1);
    const auto query = random_array<double>(Shape{8}, 3), key = random_array<double>(Shape{8}, 4);
    const auto score = [&](std::int32_t query_position, std::int32_t key_position) {
        Array<double> qkv(Shape{2, 1, 3, 8}); // the query at t = 0, the key at t = 1
        std::copy(query.values.begin(), query.values.end(), qkv.values.begin());
        std::copy(key.values.begin(), key.values.end(), qkv.values.begin() + 32);
        Array<std::int32_t> positions(Shape{2, 1});
        positions.values = {query_position, key_position};
        cpu->compute().rotary(qkv.tensor(), 2, table.tensor(), positions.tensor(), 0,
                              RotaryDirection::forward);
        return dot({qkv.values.begin(), qkv.values.begin() + 8},
                   {qkv.values.begin() + 32, qkv.values.begin() + 40});
    };
    EXPECT_NEAR(score(9, 4), score(70, 65), 1e-14);
    EXPECT_NEAR(score(0, 0), dot(query.values, key.values), 1e-14);
    EXPECT_GT(std::abs(score(9, 4) - score(9, 5)), 1e-3);
}

TEST(RotaryBf16, IsFp32RoundedOnce) {
    const Case c{9, 2, 4, 2, 20, 18};
    auto table = make_table<float>(c.rotated);
    auto qkv = random_pair(Shape{c.length, c.batch, c.heads + 2 * c.groups, c.dim}, 5);
    const auto cpu = backend::make_cpu_backend(2);
    for (const Tensor& tensor : {qkv.half.tensor(), qkv.wide.tensor()})
        cpu->compute().rotary(tensor, c.heads + c.groups, table.tensor(), {}, 3, RotaryDirection::forward);
    EXPECT_TRUE(one_rounding(qkv.half, qkv.wide.values));
}

TYPED_TEST(Positions, LookupAddsTheRowOfEachToken) {
    using T = TypeParam;
    const std::int64_t length = 6, batch = 3, width = 150, rows = 5; // positions repeat
    auto table = random_array<T>(Shape{rows, width}, 6);
    auto positions = random_tokens(Shape{length, batch}, 7, static_cast<std::int32_t>(rows));
    const auto before = random_array<T>(Shape{length, batch, width}, 8);
    auto grad_out = random_array<T>(before.shape, 9);
    const auto got = on_all_threads([&](backend::Operations& ops) {
        auto x = before;
        auto grad_table = table;
        ops.position_lookup_forward(table.tensor(), positions.tensor(), x.tensor());
        ops.position_lookup_weight_gradient(grad_out.tensor(), positions.tensor(), grad_table.tensor());
        append(x.values, grad_table);
        return x.values;
    });
    auto want = before.values;
    auto want_grad = table;
    for (std::size_t i = 0; i < want.size(); ++i) {
        const auto at = static_cast<std::size_t>(positions.values[i / 150]) * 150 + i % 150;
        want[i] += table.values[at];
        want_grad.values[at] += grad_out.values[i];
    }
    append(want, want_grad);
    EXPECT_EQ(got, want); // the same order of sums, so the same bits
    positions.values[4] = 5;
    auto x = before;
    const auto cpu = backend::make_cpu_backend(1);
    EXPECT_THROW(cpu->compute().position_lookup_forward(table.tensor(), positions.tensor(), x.tensor()),
                 Error);
}

TEST(PositionLookupBf16, IsFp32RoundedOnceAndGradientsStayInFp32) {
    const std::int64_t length = 6, batch = 3, width = 13, rows = 5;
    auto table = random_pair(Shape{rows, width}, 10), x = random_pair(Shape{length, batch, width}, 11);
    auto grad_out = random_pair(Shape{length, batch, width}, 12);
    auto positions = random_tokens(Shape{length, batch}, 13, static_cast<std::int32_t>(rows));
    Array<float> grad(Shape{rows, width}), grad_half(Shape{rows, width});
    const auto cpu = backend::make_cpu_backend(2);
    auto& ops = cpu->compute();
    ops.position_lookup_forward(table.wide.tensor(), positions.tensor(), x.wide.tensor());
    ops.position_lookup_forward(table.half.tensor(), positions.tensor(), x.half.tensor());
    EXPECT_TRUE(one_rounding(x.half, x.wide.values));
    ops.position_lookup_weight_gradient(grad_out.wide.tensor(), positions.tensor(), grad.tensor());
    ops.position_lookup_weight_gradient(grad_out.half.tensor(), positions.tensor(), grad_half.tensor());
    EXPECT_EQ(grad_half.values, grad.values); // sums of the same floats in the same order
}

} // namespace
} // namespace trireme::test
