// Cross-entropy with the vocabulary on one or several ranks (simulated by slices), padding and masked tokens.
#include "cases.hpp"

namespace trireme::test {
namespace {

template <class T>
class CrossEntropy : public testing::Test {};
using FloatTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(CrossEntropy, FloatTypes);

// The loss and gradient of the whole vocabulary, plainly.
template <class R>
std::pair<R, std::vector<R>> reference(const std::vector<R>& logits, std::size_t width, std::size_t valid,
                                       const std::vector<std::int32_t>& targets, const std::vector<R>& mask,
                                       R factor) {
    R loss = 0;
    std::vector<R> gradient(logits.size(), 0);
    for (std::size_t row = 0; row < targets.size(); ++row) {
        const R* x = logits.data() + row * width;
        R most = x[0], sum = 0;
        for (std::size_t c = 0; c < valid; ++c)
            most = std::max(most, x[c]);
        for (std::size_t c = 0; c < valid; ++c)
            sum += std::exp(x[c] - most);
        const auto target = static_cast<std::size_t>(targets[row]);
        loss += mask[row] * (std::log(sum) + most - x[target]);
        for (std::size_t c = 0; c < valid; ++c)
            gradient[row * width + c] =
                factor * mask[row] * (std::exp(x[c] - most) / sum - (c == target ? 1 : 0));
    }
    return {loss, gradient};
}

template <class T>
struct Result {
    T loss;
    std::vector<T> gradient;
};

// The vocabulary cut into `ranks` slices of equal width; the reductions over them done here.
template <class T>
Result<T> sliced(backend::Operations& ops, std::int64_t ranks, const Array<T>& logits, std::int64_t valid,
                 Array<std::int32_t>& targets, Array<T>* mask, double factor) {
    const std::int64_t n = logits.shape[0], width = logits.shape[1], part = width / ranks;
    std::vector<Array<T>> slices;
    Array<T> maximum(Shape{n}, -std::numeric_limits<T>::infinity()), sums(Shape{2, n});
    const auto valid_here = [&](std::int64_t rank) {
        return std::clamp<std::int64_t>(valid - rank * part, 0, part);
    };
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
        slices.emplace_back(Shape{n, part});
        for (std::int64_t i = 0; i < n; ++i)
            std::copy_n(logits.values.begin() + i * width + rank * part, part,
                        slices.back().values.begin() + i * part);
        Array<T> here(Shape{n});
        ops.cross_entropy_maximum(slices.back().tensor(), valid_here(rank), here.tensor());
        for (std::size_t i = 0; i < here.values.size(); ++i)
            maximum.values[i] = std::max(maximum.values[i], here.values[i]);
    }
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
        Array<T> here(Shape{2, n});
        ops.cross_entropy_sums(slices[static_cast<std::size_t>(rank)].tensor(), valid_here(rank),
                               targets.tensor(), rank * part, maximum.tensor(), here.tensor());
        for (std::size_t i = 0; i < here.values.size(); ++i)
            sums.values[i] += here.values[i];
    }
    Array<T> loss(Shape{1}, T{1});
    ops.cross_entropy_loss(sums.tensor(), mask == nullptr ? Tensor{} : mask->tensor(), loss.tensor());
    Result<T> result{loss.values[0] - T{1}, std::vector<T>(logits.values.size())};
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
        Array<T>& slice = slices[static_cast<std::size_t>(rank)];
        ops.cross_entropy_gradient(slice.tensor(), valid_here(rank), targets.tensor(), rank * part,
                                   maximum.tensor(), sums.tensor(),
                                   mask == nullptr ? Tensor{} : mask->tensor(), factor);
        for (std::int64_t i = 0; i < n; ++i)
            std::copy_n(slice.values.begin() + i * part, part,
                        result.gradient.begin() + i * width + rank * part);
    }
    return result;
}

TYPED_TEST(CrossEntropy, MatchesItsFormulaOnAnyNumberOfSlices) {
    using T = TypeParam;
    const std::int64_t n = 37, width = 36 * 7,
                       valid = 140; // with 4 slices the last holds nothing but padding
    auto logits = random_array<T>(Shape{n, width}, 1, 9);
    auto targets = random_tokens(Shape{n}, 2, static_cast<std::int32_t>(valid));
    targets.values[0] = 0;
    targets.values[1] = static_cast<std::int32_t>(valid - 1);
    auto mask = random_array<T>(Shape{n}, 3);
    for (T& value : mask.values)
        value = value > T{0.2} ? T{0} : T{1};
    const Array<T> ones(Shape{n}, T{1});
    for (const bool masked : {false, true}) {
        const auto as = [&](auto zero) {
            using R = decltype(zero);
            return reference<R>(logits.template as<R>(), width, valid, targets.values,
                                (masked ? mask : ones).template as<R>(), static_cast<R>(0.125));
        };
        const auto truth = as(0.0L);
        const auto plain = as(T{0});
        for (const std::int64_t ranks : {1, 2, 4}) {
            T loss = 0;
            const auto gradient = on_all_threads([&](backend::Operations& ops) {
                auto result = sliced(ops, ranks, logits, valid, targets, masked ? &mask : nullptr, 0.125);
                loss = result.loss;
                return result.gradient;
            });
            EXPECT_TRUE(within(gradient, truth.second, twice_plain_error(plain.second, truth.second)))
                << ranks;
            // Loss of order 400 in 37 terms: the plain loop's error, and at least two units of the sum.
            EXPECT_TRUE(
                within(std::vector<T>{loss}, std::vector<long double>{truth.first},
                       twice_plain_error(std::vector<T>{plain.first}, std::vector<long double>{truth.first})))
                << ranks;
        }
    }
}

TEST(CrossEntropyGradient, MatchesFiniteDifferences) {
    const std::int64_t n = 3, width = 5;
    auto logits = random_array<double>(Shape{n, width}, 4, 2);
    auto targets = random_tokens(Shape{n}, 5, 5);
    const auto cpu = backend::make_cpu_backend(1);
    const auto run = [&] { return sliced<double>(cpu->compute(), 1, logits, width, targets, nullptr, 1); };
    const auto want = finite_differences(logits.values, [&] { return run().loss; });
    EXPECT_TRUE(within(run().gradient, want, kFiniteDifferenceBound));
}

TYPED_TEST(CrossEntropy, ExtremeLogitsStayFiniteAndNanIsSeen) {
    using T = TypeParam;
    Array<T> logits(Shape{2, 6});
    logits.values = {T{-3e4}, T{3e4}, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6};
    Array<std::int32_t> targets(Shape{2});
    targets.values = {0, 5};
    const auto cpu = backend::make_cpu_backend(1);
    EXPECT_NEAR(sliced<T>(cpu->compute(), 1, logits, 6, targets, nullptr, 1).loss, 60000.4562, 0.01);
    logits.values[8] = std::numeric_limits<T>::quiet_NaN();
    EXPECT_TRUE(std::isnan(sliced<T>(cpu->compute(), 1, logits, 6, targets, nullptr, 1).loss));
}

} // namespace
} // namespace trireme::test
