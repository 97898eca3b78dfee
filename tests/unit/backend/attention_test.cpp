// Attention against the textbook form that stores all weights, for grouped heads, lengths that fill no block,
// dropout drawn in the test; its gradients against finite differences.
#include "cases.hpp"
#include "trireme/base/philox.hpp"

namespace trireme::test {
namespace {

using backend::Attention;
using backend::Causal;
using backend::Dropout;
using backend::DropoutSite;

struct Case {
    std::int64_t length, batch, heads, groups, dim;
    Causal causal;
    double dropout;
    unsigned documents = 0; // 0: none; else a seed of their boundaries
};
constexpr Case kCases[] = {
    {1, 1, 1, 1, 1, Causal::yes, 0},         {5, 2, 4, 2, 3, Causal::no, 0.2},
    {65, 1, 3, 1, 8, Causal::yes, 0},        {130, 2, 2, 2, 16, Causal::yes, 0.1},
    {129, 1, 2, 1, 7, Causal::no, 0},        {64, 1, 1, 1, 64, Causal::yes, 0.5},
    {300, 1, 1, 1, 5, Causal::no, 0},        {330, 1, 2, 1, 12, Causal::yes, 0.1},
    {9, 3, 2, 1, 4, Causal::yes, 0, 1},      {700, 2, 2, 1, 8, Causal::yes, 0, 2},
    {333, 1, 2, 1, 16, Causal::yes, 0.2, 3},
};

Attention options(const Case& c) {
    Attention attention;
    attention.heads = c.heads;
    attention.groups = c.groups;
    attention.head_dim = c.dim;
    attention.first_head = 6;
    attention.scale =
        1 / std::sqrt(static_cast<double>(c.dim)) + 0.5; // away from the usual, so that it counts
    attention.causal = c.causal;
    attention.dropout = {c.dropout, 1234, DropoutSite::attention_weights, 3, (std::int64_t{5} << 32) - 1, 0};
    return attention;
}

// [T, B]: where the document of each position begins. Documents of 1 to 2 sqrt(T) positions, one of most of
// the row.
Array<std::int32_t> document_starts(const Case& c) {
    Array<std::int32_t> out(Shape{c.length, c.batch});
    std::mt19937 words(c.documents);
    const auto usual = static_cast<unsigned>(2 * std::sqrt(static_cast<double>(c.length)));
    for (std::int64_t b = 0; b < c.batch; ++b)
        for (std::int64_t t = 0, begin = 0, end = 0; t < c.length; ++t) {
            if (t == end) {
                begin = t;
                end = t + (t > c.length / 5 && t < c.length / 3 ? c.length / 2 : 1 + words() % usual);
            }
            out.values[static_cast<std::size_t>(t * c.batch + b)] = static_cast<std::int32_t>(begin);
        }
    return out;
}

// 0 or 1 / (1 - p), from the definition in ops.hpp.
double multiplier(const Attention& a, std::int64_t b, std::int64_t h, std::int64_t query, std::int64_t key) {
    const Dropout& d = a.dropout;
    if (d.probability == 0)
        return 1;
    const auto sample = static_cast<std::uint64_t>(d.first_sample + b);
    PhiloxKey secret = philox_key(d.seed, RandomDomain::dropout);
    secret[1] += static_cast<std::uint32_t>(sample >> 32);
    const PhiloxCounter words = philox4x32(
        {static_cast<std::uint32_t>(key / 4), static_cast<std::uint32_t>(query),
         1U << 28 | static_cast<std::uint32_t>(d.layer) << 16 | static_cast<std::uint32_t>(a.first_head + h),
         static_cast<std::uint32_t>(sample)},
        secret);
    const bool kept =
        words[static_cast<std::size_t>(key % 4)] < std::round(4294967296.0 * (1 - d.probability));
    return kept ? 1 / (1 - d.probability) : 0;
}

template <class R>
struct Reference {
    std::vector<R> out, logsumexp, grad;
};

// softmax(scale Q K^T) V and its derivatives with all weights stored, head by head.
template <class R>
Reference<R> reference(const Case& c, const Attention& a, const std::vector<R>& qkv,
                       const std::vector<R>& grad_out) {
    const std::int64_t packed = c.heads + 2 * c.groups;
    const auto at = [&](std::int64_t t, std::int64_t b, std::int64_t slot, std::int64_t d) {
        return static_cast<std::size_t>(((t * c.batch + b) * packed + slot) * c.dim + d);
    };
    const auto at_out = [&](std::int64_t t, std::int64_t b, std::int64_t h, std::int64_t d) {
        return static_cast<std::size_t>(((t * c.batch + b) * c.heads + h) * c.dim + d);
    };
    Reference<R> result;
    result.out.assign(grad_out.size(), 0);
    result.logsumexp.assign(static_cast<std::size_t>(c.batch * c.heads * c.length), 0);
    result.grad.assign(qkv.size(), 0);
    const R scale = static_cast<R>(a.scale);
    for (std::int64_t b = 0; b < c.batch; ++b)
        for (std::int64_t h = 0; h < c.heads; ++h) {
            const std::int64_t k_slot = c.heads + h * c.groups / c.heads, v_slot = k_slot + c.groups;
            for (std::int64_t q = 0; q < c.length; ++q) {
                const std::int64_t keys = c.causal == Causal::yes ? q + 1 : c.length;
                std::vector<R> p(static_cast<std::size_t>(keys)), g(static_cast<std::size_t>(keys));
                R most = -std::numeric_limits<R>::infinity(), sum = 0, delta = 0;
                const std::int64_t begin =
                    a.documents.defined()
                        ? a.documents.values<std::int32_t>()[static_cast<std::size_t>(q * c.batch + b)]
                        : 0;
                for (std::int64_t k = 0; k < keys; ++k) {
                    R score = 0;
                    for (std::int64_t d = 0; d < c.dim; ++d)
                        score += qkv[at(q, b, h, d)] * qkv[at(k, b, k_slot, d)];
                    p[static_cast<std::size_t>(k)] =
                        k < begin ? -std::numeric_limits<R>::infinity() : score * scale;
                    most = std::max(most, p[static_cast<std::size_t>(k)]);
                }
                for (R& weight : p)
                    sum += std::exp(weight - most);
                result.logsumexp[static_cast<std::size_t>((b * c.heads + h) * c.length + q)] =
                    most + std::log(sum);
                for (std::int64_t k = 0; k < keys; ++k) {
                    R& weight = p[static_cast<std::size_t>(k)];
                    weight = std::exp(weight - most) / sum;
                    const R z = static_cast<R>(multiplier(a, b, h, q, k));
                    R grad_weight = 0;
                    for (std::int64_t d = 0; d < c.dim; ++d) {
                        result.out[at_out(q, b, h, d)] += weight * z * qkv[at(k, b, v_slot, d)];
                        grad_weight += grad_out[at_out(q, b, h, d)] * qkv[at(k, b, v_slot, d)] * z;
                        result.grad[at(k, b, v_slot, d)] += weight * z * grad_out[at_out(q, b, h, d)];
                    }
                    g[static_cast<std::size_t>(k)] = grad_weight;
                    delta += grad_weight * weight;
                }
                for (std::int64_t k = 0; k < keys; ++k) {
                    const R grad_score =
                        p[static_cast<std::size_t>(k)] * (g[static_cast<std::size_t>(k)] - delta) * scale;
                    for (std::int64_t d = 0; d < c.dim; ++d) {
                        result.grad[at(q, b, h, d)] += grad_score * qkv[at(k, b, k_slot, d)];
                        result.grad[at(k, b, k_slot, d)] += grad_score * qkv[at(q, b, h, d)];
                    }
                }
            }
        }
    return result;
}

template <class T>
class AttentionTest : public testing::Test {};
using FloatTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionTest, FloatTypes);

TYPED_TEST(AttentionTest, MatchesTheTextbook) {
    using T = TypeParam;
    for (const Case& c : kCases) {
        Attention attention = options(c);
        auto documents = document_starts(c);
        if (c.documents != 0)
            attention.documents = documents.tensor();
        auto qkv = random_array<T>(Shape{c.length, c.batch, c.heads + 2 * c.groups, c.dim}, 1, 2);
        auto grad_out = random_array<T>(Shape{c.length, c.batch, c.heads, c.dim}, 2);
        Array<T> out(grad_out.shape, T{5}), logsumexp(Shape{c.batch, c.heads, c.length}),
            grad(qkv.shape, T{7});
        on_all_threads([&](backend::Operations& ops) {
            ops.attention_forward(qkv.tensor(), attention, out.tensor(), logsumexp.tensor());
            ops.attention_input_gradient(grad_out.tensor(), qkv.tensor(), out.tensor(), logsumexp.tensor(),
                                         attention, grad.tensor());
            std::vector<T> all = out.values;
            append(all, logsumexp);
            append(all, grad);
            return all;
        });
        const auto truth = reference<long double>(c, attention, qkv.template as<long double>(),
                                                  grad_out.template as<long double>());
        const auto plain = reference<T>(c, attention, qkv.values, grad_out.values);
        const auto label =
            concat("T ", c.length, " H ", c.heads, " G ", c.groups, " D ", c.dim, " documents ", c.documents);
        EXPECT_TRUE(within(out.values, truth.out, twice_plain_error(plain.out, truth.out))) << label;
        EXPECT_TRUE(
            within(logsumexp.values, truth.logsumexp, twice_plain_error(plain.logsumexp, truth.logsumexp)))
            << label;
        EXPECT_TRUE(within(grad.values, truth.grad, twice_plain_error(plain.grad, truth.grad))) << label;
    }
}

TEST(AttentionGradient, MatchesFiniteDifferences) {
    const Case c{6, 2, 4, 2, 3, Causal::yes, 0.25};
    const Attention attention = options(c);
    auto qkv = random_array<double>(Shape{c.length, c.batch, c.heads + 2 * c.groups, c.dim}, 3);
    auto grad_out = random_array<double>(Shape{c.length, c.batch, c.heads, c.dim}, 4);
    Array<double> out(grad_out.shape), logsumexp(Shape{c.batch, c.heads, c.length}), grad(qkv.shape);
    const auto cpu = backend::make_cpu_backend(1);
    const auto loss = [&] {
        cpu->compute().attention_forward(qkv.tensor(), attention, out.tensor(), logsumexp.tensor());
        return dot(out.values, grad_out.values);
    };
    const auto want = finite_differences(qkv.values, loss);
    loss();
    cpu->compute().attention_input_gradient(grad_out.tensor(), qkv.tensor(), out.tensor(), logsumexp.tensor(),
                                            attention, grad.tensor());
    EXPECT_TRUE(within(grad.values, want, kFiniteDifferenceBound * largest(want)));
}

TYPED_TEST(AttentionTest, LargeScoresDoNotOverflowAndNanReachesItsQueries) {
    using T = TypeParam;
    const Case c{270, 1, 1, 1, 2, Causal::yes, 0};
    Attention attention = options(c);
    attention.scale = 1;
    auto qkv = random_array<T>(Shape{c.length, 1, 3, c.dim}, 5, 300); // scores up to 180000
    Array<T> out(Shape{c.length, 1, 1, c.dim}), logsumexp(Shape{1, 1, c.length});
    const auto cpu = backend::make_cpu_backend(2);
    cpu->compute().attention_forward(qkv.tensor(), attention, out.tensor(), logsumexp.tensor());
    for (const T value : out.values)
        EXPECT_TRUE(std::abs(value) <= T{300});
    qkv.values[static_cast<std::size_t>(266 * 3 * c.dim + c.dim)] =
        std::numeric_limits<T>::quiet_NaN(); // a key at 266
    cpu->compute().attention_forward(qkv.tensor(), attention, out.tensor(), logsumexp.tensor());
    for (std::size_t q = 0; q < 270; ++q)
        EXPECT_EQ(std::isnan(out.values[2 * q]), q >= 266) << q;
}

// Documents really do not attend to each other: whatever stands in one, the others keep their bits.
TYPED_TEST(AttentionTest, DocumentsDoNotSeeEachOther) {
    using T = TypeParam;
    const Case c{300, 1, 2, 1, 8, Causal::yes, 0};
    Attention attention = options(c);
    Array<std::int32_t> documents(Shape{c.length, 1});
    for (std::size_t t = 0; t < 300; ++t)
        documents.values[t] = t < 90 ? 0 : t < 130 ? 90 : 130;
    attention.documents = documents.tensor();
    auto qkv = random_array<T>(Shape{c.length, 1, 4, c.dim}, 6);
    auto grad_out = random_array<T>(Shape{c.length, 1, 2, c.dim}, 7);
    const auto cpu = backend::make_cpu_backend(2);
    const auto compute = [&] {
        Array<T> out(grad_out.shape), logsumexp(Shape{1, 2, c.length}), grad(qkv.shape);
        cpu->compute().attention_forward(qkv.tensor(), attention, out.tensor(), logsumexp.tensor());
        cpu->compute().attention_input_gradient(grad_out.tensor(), qkv.tensor(), out.tensor(),
                                                logsumexp.tensor(), attention, grad.tensor());
        return std::pair(out.values, grad.values);
    };
    const auto before = compute();
    for (std::size_t t = 90; t < 130; ++t) { // the middle document
        for (std::size_t i = 0; i < 32; ++i)
            qkv.values[t * 32 + i] = static_cast<T>(50.0 - static_cast<double>(i + t % 7));
        for (std::size_t i = 0; i < 16; ++i)
            grad_out.values[t * 16 + i] = T{9};
    }
    const auto after = compute();
    for (std::size_t t = 0; t < 300; ++t) {
        const bool same_out =
            std::equal(&before.first[t * 16], &before.first[t * 16] + 16, &after.first[t * 16]);
        const bool same_grad =
            std::equal(&before.second[t * 32], &before.second[t * 32] + 32, &after.second[t * 32]);
        EXPECT_EQ(same_out, t < 90 || t >= 130) << t;
        EXPECT_EQ(same_grad, t < 90 || t >= 130) << t;
    }
}

TEST(AttentionDocuments, RefusesWhatIsNoOrderOfDocuments) {
    const Case c{4, 1, 1, 1, 2, Causal::yes, 0};
    Attention attention = options(c);
    auto qkv = random_array<float>(Shape{4, 1, 3, 2}, 8);
    Array<float> out(Shape{4, 1, 1, 2}), logsumexp(Shape{1, 1, 4});
    Array<std::int32_t> documents(Shape{4, 1});
    attention.documents = documents.tensor();
    const auto cpu = backend::make_cpu_backend(1);
    const auto with = [&](std::vector<std::int32_t> starts) {
        documents.values = std::move(starts);
        attention.documents = documents.tensor();
        cpu->compute().attention_forward(qkv.tensor(), attention, out.tensor(), logsumexp.tensor());
    };
    EXPECT_NO_THROW(with({0, 1, 1, 3}));
    EXPECT_THROW(with({0, 2, 2, 2}), Error); // begins behind its position
    EXPECT_THROW(with({0, 1, 0, 3}), Error); // goes back
    EXPECT_THROW(with({-1, 0, 0, 0}), Error);
    attention.causal = Causal::no;
    EXPECT_THROW(with({0, 1, 1, 3}), Error);
}

} // namespace
} // namespace trireme::test
