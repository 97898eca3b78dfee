// Attention of the CUDA backend (cuDNN's and the own kernels) against the CPU's. The plain computation in
// bf16 is the one a fused kernel makes: scores and sums in fp32, but the weights P and the gradients of
// scores rounded before they meet the matrix unit.
#include "gpu/compare.hpp"
#include "trireme/base/philox.hpp"

namespace trireme::test {
namespace {

using backend::Attention;
using backend::Causal;
using backend::Dropout;
using backend::DropoutSite;
using backend::Operations;

class GpuAttention : public testing::Test {
  protected:
    void SetUp() override {
        if (gpu() == nullptr)
            GTEST_SKIP() << "needs gpu: this machine has none, or the build has no CUDA";
    }
};

// The multiplier of one weight, from the definition in ops.hpp.
double multiplier(const Dropout& d, std::int64_t b, std::int64_t head, std::int64_t query, std::int64_t key) {
    if (d.probability == 0)
        return 1;
    PhiloxKey words = philox_key(d.seed, RandomDomain::dropout);
    const auto sample = static_cast<std::uint64_t>(d.first_sample + b);
    words[1] += static_cast<std::uint32_t>(sample >> 32);
    const PhiloxCounter drawn =
        philox4x32({static_cast<std::uint32_t>(key / 4), static_cast<std::uint32_t>(query),
                    static_cast<std::uint32_t>(d.site) << 28 | static_cast<std::uint32_t>(d.layer) << 16 |
                        static_cast<std::uint32_t>(head),
                    static_cast<std::uint32_t>(sample)},
                   words);
    return drawn[static_cast<std::size_t>(key % 4)] < std::llround(0x1.0p32 * (1 - d.probability))
               ? 1 / (1 - d.probability)
               : 0;
}

// Buffers: qkv, grad_out, out, logsumexp, grad_qkv.
Values plain_attention(DType act, const Values& inputs, const Shape& qkv, const Attention& a,
                       std::int64_t document) {
    Values results = inputs;
    const std::int64_t length = qkv[0], batch = qkv[1], heads = a.heads, groups = a.groups, dim = a.head_dim;
    const auto round = [&](float value) { return static_cast<float>(rounded_to(act, value)); };
    const auto packed_at = [&](std::int64_t t, std::int64_t b, std::int64_t part) {
        return static_cast<std::size_t>(((t * batch + b) * (heads + 2 * groups) + part) * dim);
    };
    const auto out_at = [&](std::int64_t t, std::int64_t b, std::int64_t h) {
        return static_cast<std::size_t>(((t * batch + b) * heads + h) * dim);
    };
    const std::vector<double>&x = inputs[0], &grad_out = inputs[1];
    std::vector<float> grad(x.size());
    const auto dot = [&](const std::vector<double>& left, std::size_t i, const std::vector<double>& right,
                         std::size_t j) {
        float sum = 0;
        for (std::size_t d = 0; d < static_cast<std::size_t>(dim); ++d)
            sum += static_cast<float>(left[i + d]) * static_cast<float>(right[j + d]);
        return sum;
    };
    const auto width = static_cast<std::size_t>(dim);
    for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t h = 0; h < heads; ++h) {
            const std::int64_t g = h * groups / heads;
            for (std::int64_t q = 0; q < length; ++q) {
                const std::int64_t end = a.causal == Causal::yes ? q + 1 : length;
                const std::int64_t begin = document == 0 ? 0 : q / document * document;
                std::vector<float> score(static_cast<std::size_t>(end)), sums(width);
                float most = -INFINITY, sum = 0;
                for (std::int64_t k = begin; k < end; ++k) {
                    score[static_cast<std::size_t>(k)] =
                        static_cast<float>(a.scale) *
                        dot(x, packed_at(q, b, h), x, packed_at(k, b, heads + g));
                    most = std::max(most, score[static_cast<std::size_t>(k)]);
                }
                for (std::int64_t k = begin; k < end; ++k) {
                    const float weight = std::exp(score[static_cast<std::size_t>(k)] - most);
                    sum += weight;
                    const float used =
                        round(weight * static_cast<float>(multiplier(a.dropout, b, a.first_head + h, q, k)));
                    for (std::size_t d = 0; d < width; ++d)
                        sums[d] += used * static_cast<float>(x[packed_at(k, b, heads + groups + g) + d]);
                }
                const float lse = most + std::log(sum);
                results[3][static_cast<std::size_t>((b * heads + h) * length + q)] = lse;
                for (std::size_t d = 0; d < width; ++d)
                    results[2][out_at(q, b, h) + d] = round(sums[d] / sum);
                const float delta = dot(grad_out, out_at(q, b, h), results[2], out_at(q, b, h));
                for (std::int64_t k = begin; k < end; ++k) {
                    const float p = std::exp(score[static_cast<std::size_t>(k)] - lse);
                    const auto z = static_cast<float>(multiplier(a.dropout, b, a.first_head + h, q, k));
                    const float product =
                        dot(grad_out, out_at(q, b, h), x, packed_at(k, b, heads + groups + g));
                    const float slope = round(p * (z * product - delta)), used = round(p * z);
                    for (std::size_t d = 0; d < width; ++d) {
                        const auto scale = static_cast<float>(a.scale);
                        grad[packed_at(q, b, h) + d] +=
                            scale * slope * static_cast<float>(x[packed_at(k, b, heads + g) + d]);
                        grad[packed_at(k, b, heads + g) + d] +=
                            scale * slope * static_cast<float>(x[packed_at(q, b, h) + d]);
                        grad[packed_at(k, b, heads + groups + g) + d] +=
                            used * static_cast<float>(grad_out[out_at(q, b, h) + d]);
                    }
                }
            }
        }
    for (std::size_t i = 0; i < grad.size(); ++i)
        results[4][i] = round(grad[i]);
    return results;
}

struct Case {
    std::int64_t length, batch, heads, groups, dim;
    Causal causal = Causal::yes;
    double dropout = 0;
    std::int64_t document = 0; // positions of a document; 0: no documents
};

void check_case(const Case& c) {
    Attention attention{.heads = c.heads,
                        .groups = c.groups,
                        .head_dim = c.dim,
                        .first_head = 3,
                        .scale = 1 / std::sqrt(static_cast<double>(c.dim)),
                        .causal = c.causal,
                        .dropout = {}};
    attention.dropout.probability = c.dropout;
    attention.dropout.seed = 5;
    attention.dropout.site = DropoutSite::attention_weights;
    attention.dropout.layer = 2;
    attention.dropout.first_sample = (std::int64_t{1} << 32) - 1;
    const Shape qkv{c.length, c.batch, c.heads + 2 * c.groups, c.dim}, out{c.length, c.batch, c.heads, c.dim};
    const std::vector<Buffer> buffers{
        {Holds::act, Flow::in, qkv, -2, 2}, {Holds::act, Flow::in, out},
        {Holds::act, Flow::out, out},       {Holds::stat, Flow::out, Shape{c.batch, c.heads, c.length}},
        {Holds::act, Flow::out, qkv},       {Holds::i32, Flow::in, Shape{c.length, c.batch}}};
    compare(
        concat("attention T ", c.length, " B ", c.batch, " H ", c.heads, " G ", c.groups, " D ", c.dim,
               c.causal == Causal::yes ? " causal" : "", " dropout ", c.dropout),
        buffers,
        [&](Operations& ops, std::vector<Tensor>& t) {
            Attention settings = attention;
            if (c.document > 0)
                settings.documents = t[5];
            ops.attention_forward(t[0], settings, t[2], t[3]);
            ops.attention_input_gradient(t[1], t[0], t[2], t[3], settings, t[4]);
        },
        [&](DType act, const Values& inputs) {
            return plain_attention(act, inputs, qkv, attention, c.document);
        },
        [&](Values& inputs) {
            for (std::size_t i = 0; i < inputs[5].size(); ++i) {
                const std::int64_t t = static_cast<std::int64_t>(i) / c.batch;
                inputs[5][i] = static_cast<double>(c.document == 0 ? 0 : t / c.document * c.document);
            }
        });
}

TEST_F(GpuAttention, HeadsOfTheUsualSizes) {
    check_case({.length = 64, .batch = 2, .heads = 2, .groups = 2, .dim = 64});
    check_case({.length = 257, .batch = 2, .heads = 3, .groups = 3, .dim = 64});
    check_case({.length = 130, .batch = 1, .heads = 2, .groups = 2, .dim = 128});
    check_case({.length = 100, .batch = 2, .heads = 2, .groups = 2, .dim = 64, .causal = Causal::no});
}

TEST_F(GpuAttention, GroupsOfQueriesShareKeys) {
    check_case({.length = 96, .batch = 2, .heads = 6, .groups = 2, .dim = 64});
    check_case({.length = 33, .batch = 1, .heads = 4, .groups = 1, .dim = 128});
}

TEST_F(GpuAttention, OddShapes) {
    check_case({.length = 1, .batch = 1, .heads = 1, .groups = 1, .dim = 1});
    check_case({.length = 3, .batch = 2, .heads = 2, .groups = 1, .dim = 5});
    check_case({.length = 70, .batch = 1, .heads = 1, .groups = 1, .dim = 200});
    check_case({.length = 40, .batch = 1, .heads = 2, .groups = 2, .dim = 256});
    check_case({.length = 35, .batch = 1, .heads = 1, .groups = 1, .dim = 80, .causal = Causal::no});
}

TEST_F(GpuAttention, Dropout) {
    check_case({.length = 100, .batch = 2, .heads = 4, .groups = 2, .dim = 64, .dropout = 0.1});
    check_case(
        {.length = 37, .batch = 2, .heads = 2, .groups = 2, .dim = 24, .causal = Causal::no, .dropout = 0.5});
}

// The kernels on the matrix unit: lengths around their tiles of 128 and 64 (and 32), both head sizes.
TEST_F(GpuAttention, DropoutOnTheMatrixUnit) {
    for (const std::int64_t length : {1, 64, 127, 129, 300})
        for (const std::int64_t dim : {64, 128})
            check_case({.length = length, .batch = 2, .heads = 2, .groups = 1, .dim = dim, .dropout = 0.1});
    check_case({.length = 200,
                .batch = 1,
                .heads = 3,
                .groups = 3,
                .dim = 128,
                .causal = Causal::no,
                .dropout = 0.3});
    check_case({.length = 200,
                .batch = 1,
                .heads = 4,
                .groups = 2,
                .dim = 64,
                .causal = Causal::no,
                .dropout = 0.3});
}

TEST_F(GpuAttention, DocumentsOnTheMatrixUnit) {
    for (const std::int64_t document : {7, 64, 150})
        for (const std::int64_t dim : {64, 128}) {
            check_case(
                {.length = 300, .batch = 2, .heads = 2, .groups = 2, .dim = dim, .document = document});
            check_case({.length = 300,
                        .batch = 1,
                        .heads = 2,
                        .groups = 1,
                        .dim = dim,
                        .dropout = 0.2,
                        .document = document});
        }
}

TEST_F(GpuAttention, DocumentsDoNotSeeEachOther) {
    check_case({.length = 100, .batch = 2, .heads = 2, .groups = 1, .dim = 64, .document = 37});
    check_case({.length = 70, .batch = 1, .heads = 2, .groups = 2, .dim = 32, .dropout = 0.2, .document = 9});
}

TEST_F(GpuAttention, RefusesHeadsBeyondItsKernels) {
    EXPECT_THROW(check_case({.length = 4, .batch = 1, .heads = 1, .groups = 1, .dim = 257}), Error);
}

} // namespace
} // namespace trireme::test
