// Attention forward on Hopper. A block has 128 queries, 64 a warpgroup, and walks over tiles of 128 keys; the
// scores of the next tile are multiplied out while this one's weights meet the values. Running maximum and
// sum as in attention_forward.cu, with exponentials of 2. Weights are rounded to bf16 before they meet the
// values.
#include "backend/cuda/attention_hopper.cuh"
#include "backend/cuda/scratch_needs.hpp"

namespace trireme::backend {
namespace {

using namespace hopper;

constexpr int kQueries = 128, kKeys = 128, kBlocks = kKeys / 8;

template <int kDim>
constexpr int kForwardBytes = (kQueries + 4 * kKeys) * kDim* static_cast<int>(sizeof(bf16));

// The running softmax of a lane's two rows.
struct Softmax {
    float scale;                            // of scores, for exponentials of 2
    float most[2] = {-INFINITY, -INFINITY}; // of scores
    float sum[2] = {};

    // Scores become weights; returns in `shrink` what earlier sums must be multiplied by.
    __device__ void weigh(float (&scores)[kBlocks][4], float (&shrink)[2]) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float highest = most[h];
#pragma unroll
            for (int i = 0; i < kBlocks; ++i)
                highest = fmaxf(highest, fmaxf(scores[i][2 * h], scores[i][2 * h + 1]));
            highest = fmaxf(highest, __shfl_xor_sync(0xFFFFFFFFu, highest, 1));
            highest = fmaxf(highest, __shfl_xor_sync(0xFFFFFFFFu, highest, 2));
            // A row that has seen nothing yet: keep its exponents finite.
            const float base = highest == -INFINITY ? 0 : highest * scale;
            shrink[h] = power_of_two(fmaf(most[h], scale, -base));
            most[h] = highest;
            float added = 0;
#pragma unroll
            for (int i = 0; i < kBlocks; ++i)
#pragma unroll
                for (int e = 2 * h; e < 2 * h + 2; ++e) {
                    scores[i][e] = power_of_two(fmaf(scores[i][e], scale, -base));
                    added += scores[i][e]; // of all weights: dropout comes after the softmax
                }
            sum[h] = fmaf(sum[h], shrink[h], added);
        }
    }
};

// Grid: places. Shared: queries [128][dim], two each of keys and values [128][dim].
template <int kDim, bool kDropout>
__global__ void __launch_bounds__(kThreads, 1)
    hopper_forward_kernel(const bf16* qkv, AttentionSizes s, KeptTable kept, bf16* out, float* logsumexp) {
    extern __shared__ __align__(1024) bf16 tiles[];
    bf16 *const queries = tiles, *const keys = queries + kQueries * kDim,
                *const values = keys + 2 * kKeys * kDim;
    const int length = static_cast<int>(s.length), number_of_tiles = (length + kQueries - 1) / kQueries;
    const Place place(number_of_tiles, s.heads, s.batch);
    const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
    const int q0 = (number_of_tiles - 1 - place.tile) * kQueries, own = warp / 4 * 64;
    const int row = q0 + 16 * warp + lane / 4;
    const std::int64_t b = place.b, head = place.head, number = b * s.heads + head;
    const HeadRows<const bf16> from_keys(qkv, s, s.packed(), b, s.heads + s.group_of(head));
    const HeadRows<const bf16> from_values(qkv, s, s.packed(), b, s.heads + s.groups + s.group_of(head));
    const int end = s.causal ? min(q0 + kQueries, length) : length;
    const int seen[2] = {first_seen(s, b, row), first_seen(s, b, row + 8)};

    const auto fetch_keys = [&](int k0, int buffer) {
        fetch_tile<kKeys, kDim>(from_keys, k0, length, keys + buffer * kKeys * kDim);
    };
    const auto fetch_values = [&](int k0, int buffer) {
        fetch_tile<kKeys, kDim>(from_values, k0, length, values + buffer * kKeys * kDim);
    };
    float sums[kDim / 8][4] = {}, scores[kBlocks][4], shrink[2];
    std::uint32_t weights[kBlocks / 2][4], words[kKeys / 32][2];
    Softmax softmax{s.scale * kLog2E};
    const auto multiply_scores = [&](int buffer) {
        row_products<kQueries, kDim>(queries, own, keys + buffer * kKeys * kDim, scores);
        commit_products();
    };
    // Asked for early: they come from the second cache.
    const auto fetch_words = [&](int k0) {
        if constexpr (kDropout)
#pragma unroll
            for (int i = 0; i < kKeys / 32; ++i)
#pragma unroll
                for (int h = 0; h < 2; ++h)
                    words[i][h] = kept.row(number, k0 + 32 * i)[row + 8 * h];
    };
    const auto hide = [&](int k0) {
        if (k0 + kKeys <= length && s.documents == nullptr && (!s.causal || k0 + kKeys - 1 <= q0 + own))
            return; // all are seen
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int first = seen[h] - k0,
                      last = (s.causal ? min(row + 8 * h, length - 1) : length - 1) - k0;
#pragma unroll
            for (int i = 0; i < kBlocks; ++i)
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    const int key = 8 * i + lane % 4 * 2 + e;
                    if (key > last || key < first)
                        scores[i][2 * h + e] = -INFINITY;
                }
        }
    };
    const auto pack_weights = [&]() {
        pack_rows(scores, weights);
        if constexpr (kDropout) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
#pragma unroll
                for (int word = 0; word < kKeys / 32; ++word) {
                    const std::uint32_t of_lane = words[word][h] << (3 - lane % 4);
#pragma unroll
                    for (int j = 0; j < 4; ++j)
                        weights[2 * word + j / 2][j % 2 * 2 + h] &= spread_signs(of_lane << (12 - 4 * j));
                }
            }
        }
    };

    int k0 = first_seen(s, b, q0) / kKeys * kKeys; // documents do not go back
    fetch_tile<kQueries, kDim>(HeadRows<const bf16>(qkv, s, s.packed(), b, head), q0, length, queries);
    fetch_keys(k0, 0);
    commit_fetches();
    fetch_words(k0);
    wait_for_fetches();
    __syncthreads();
    if (k0 + kKeys < end)
        fetch_keys(k0 + kKeys, 1);
    fetch_values(k0, 0);
    commit_fetches();
    begin_products();
    multiply_scores(0);
    wait_for_products<0>();
    hold(scores);
    hide(k0);
    softmax.weigh(scores, shrink);
    pack_weights();

    int buffer = 0;
    for (; k0 + kKeys < end; k0 += kKeys, buffer ^= 1) {
        wait_for_fetches();
        __syncthreads(); // the next keys and these values are here; these keys and the last values were read
        if (k0 + 2 * kKeys < end)
            fetch_keys(k0 + 2 * kKeys, buffer);
        fetch_values(k0 + kKeys, buffer ^ 1);
        commit_fetches();
        fetch_words(k0 + kKeys);
        hold(scores);
        hold(sums);
        begin_products();
        multiply_scores(buffer ^ 1);
        add_weighted_rows<kDim>(weights, values + buffer * kKeys * kDim, sums);
        commit_products();
        wait_for_products<1>();
        hold(scores);
        hide(k0 + kKeys);
        softmax.weigh(scores, shrink);
        wait_for_products<0>();
        hold(sums);
#pragma unroll
        for (int i = 0; i < kDim / 8; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                sums[i][e] *= shrink[e / 2];
        pack_weights();
    }
    wait_for_fetches();
    __syncthreads();
    hold(sums);
    begin_products();
    add_weighted_rows<kDim>(weights, values + buffer * kKeys * kDim, sums);
    commit_products();
    wait_for_products<0>();
    hold(sums);

    float factor[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        float sum = softmax.sum[h];
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
        factor[h] = s.dropout.factor / sum; // 1 without dropout
        if (lane % 4 == 0 && row + 8 * h < length)
            logsumexp[number * s.length + row + 8 * h] = softmax.most[h] * s.scale + logf(sum);
    }
    store_rows<kDim>(HeadRows<bf16>(out, s, s.heads, b, head), row, length, sums, factor[0], factor[1]);
}

template <int kDim, bool kDropout>
void launch(cudaStream_t stream, const Tensor& qkv, const AttentionSizes& sizes, const KeptTable& kept,
            const Tensor& out, const Tensor& logsumexp) {
    auto* const kernel = hopper_forward_kernel<kDim, kDropout>;
    allow_shared(kernel, kForwardBytes<kDim>);
    const auto blocks = static_cast<unsigned>(blocks_for(sizes.length, kQueries) * sizes.heads * sizes.batch);
    kernel<<<blocks, kThreads, kForwardBytes<kDim>, stream>>>(
        data<bf16>(qkv), sizes, kept, writable<bf16>(out), writable<float>(logsumexp));
    check_launch("attention_forward");
}

} // namespace

void hopper_attention_forward(cudaStream_t stream, const Tensor& qkv, const Attention& attention,
                              const Tensor& out, const Tensor& logsumexp, DeviceScratch& scratch) {
    const AttentionSizes sizes(qkv, attention);
    const auto choose = [&](auto dim) {
        if (sizes.dropout.active)
            launch<dim, true>(stream, qkv, sizes,
                              draw_kept(stream, sizes,
                                        scratch.of<std::uint32_t>(cuda_scratch::kept_words(
                                            sizes.batch, sizes.heads, sizes.length))),
                              out, logsumexp);
        else
            launch<dim, false>(stream, qkv, sizes, {}, out, logsumexp);
    };
    if (sizes.dim == 64)
        choose(std::integral_constant<int, 64>{});
    else
        choose(std::integral_constant<int, 128>{});
}

} // namespace trireme::backend
