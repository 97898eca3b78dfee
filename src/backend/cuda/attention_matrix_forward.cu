// Attention forward on the matrix unit. A block has 128 queries, 16 a warp, and walks over tiles of 64 keys
// while the next tile is under way; scores, running maximum and sum as in attention_forward.cu, with
// exponentials of 2. Weights are rounded to bf16 before they meet the values.
#include "backend/cuda/attention_matrix.cuh"

namespace trireme::backend {
namespace {

using namespace matrix;

constexpr int kQueries = 16 * kWarps, kKeys = 64, kBlocks = kKeys / 8;

template <int kDim>
constexpr int kForwardBytes = (kQueries + 4 * kKeys) * kDim* static_cast<int>(sizeof(bf16));

// Grid: tiles of queries, heads, batch. Shared: queries [128][dim], two each of keys and values [64][dim].
template <int kDim, bool kDropout>
__global__ void __launch_bounds__(kThreads, 1)
    matrix_forward_kernel(const bf16* qkv, AttentionSizes s, bf16* out, float* logsumexp) {
    extern __shared__ __align__(128) bf16 tiles[];
    bf16 *const queries = tiles, *const keys = queries + kQueries * kDim,
                *const values = keys + 2 * kKeys * kDim;
    const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
    // The last tile of queries sees most keys: long blocks first.
    const std::int64_t q0 = (static_cast<std::int64_t>(gridDim.x) - 1 - blockIdx.x) * kQueries;
    const std::int64_t head = blockIdx.y, b = blockIdx.z, row = q0 + 16 * warp + lane / 4;
    const HeadRows<const bf16> from_queries(qkv, s, s.packed(), b, head);
    const HeadRows<const bf16> from_keys(qkv, s, s.packed(), b, s.heads + s.group_of(head));
    const HeadRows<const bf16> from_values(qkv, s, s.packed(), b, s.heads + s.groups + s.group_of(head));
    const std::int64_t end = s.causal && q0 + kQueries < s.length ? q0 + kQueries : s.length;
    const std::int64_t seen[2] = {first_seen(s, b, row), first_seen(s, b, row + 8)};

    std::int64_t k0 = first_seen(s, b, q0) / kKeys * kKeys; // documents do not go back
    fetch_tile<kQueries, kDim>(from_queries, q0, s.length, queries);
    fetch_tile<kKeys, kDim>(from_keys, k0, s.length, keys);
    fetch_tile<kKeys, kDim>(from_values, k0, s.length, values);
    commit();

    float sums[kDim / 8][4] = {};
    float most[2] = {-INFINITY, -INFINITY}, sum[2] = {};
    const float scale = s.scale * kLog2E;
    for (int buffer = 0; k0 < end; k0 += kKeys, buffer ^= 1) {
        wait_for_fetches();
        __syncthreads(); // this tile is here, and the last one has been read
        if (k0 + kKeys < end) {
            fetch_tile<kKeys, kDim>(from_keys, k0 + kKeys, s.length, keys + (buffer ^ 1) * kKeys * kDim);
            fetch_tile<kKeys, kDim>(from_values, k0 + kKeys, s.length, values + (buffer ^ 1) * kKeys * kDim);
            commit();
        }
        if (s.causal && k0 > q0 + 16 * warp + 15)
            continue; // behind all queries of this warp
        float scores[kBlocks][4];
        row_products<kDim, kBlocks>(queries, 16 * warp, keys + buffer * kKeys * kDim, scores);

        const bool all_seen = k0 + kKeys <= s.length && s.documents == nullptr &&
                              (!s.causal || k0 + kKeys - 1 <= q0 + 16 * warp);
        float highest[2] = {most[0], most[1]};
#pragma unroll
        for (int i = 0; i < kBlocks; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const std::int64_t key = k0 + 8 * i + lane % 4 * 2 + e % 2, query = row + e / 2 * 8;
                if (!all_seen && (key >= s.length || (s.causal && key > query) || key < seen[e / 2]))
                    scores[i][e] = -INFINITY;
                highest[e / 2] = fmaxf(highest[e / 2], scores[i][e]);
            }
        float base[2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            highest[h] = fmaxf(highest[h], __shfl_xor_sync(0xFFFFFFFFu, highest[h], 1));
            highest[h] = fmaxf(highest[h], __shfl_xor_sync(0xFFFFFFFFu, highest[h], 2));
            // A row that has seen nothing yet: keep its exponents finite.
            base[h] = highest[h] == -INFINITY ? 0 : highest[h] * scale;
            const float shrink = power_of_two(most[h] * scale - base[h]);
            sum[h] *= shrink;
            most[h] = highest[h];
#pragma unroll
            for (int block = 0; block < kDim / 8; ++block) {
                sums[block][2 * h] *= shrink;
                sums[block][2 * h + 1] *= shrink;
            }
        }
#pragma unroll
        for (int i = 0; i < kBlocks; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                scores[i][e] = power_of_two(fmaf(scores[i][e], scale, -base[e / 2]));
                sum[e / 2] += scores[i][e]; // of all weights: dropout comes after the softmax
            }
        if constexpr (kDropout) {
            const KeptOfRows<kBlocks> kept(s, b, head, q0 + 16 * warp, k0);
#pragma unroll
            for (int i = 0; i < kBlocks; ++i)
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    scores[i][e] = kept(i, e) ? scores[i][e] : 0;
        }
        add_weighted_rows<kDim, kBlocks>(scores, values + buffer * kKeys * kDim, sums);
    }
    float factor[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        sum[h] += __shfl_xor_sync(0xFFFFFFFFu, sum[h], 1);
        sum[h] += __shfl_xor_sync(0xFFFFFFFFu, sum[h], 2);
        factor[h] = s.dropout.factor / sum[h]; // 1 without dropout
        if (lane % 4 == 0 && row + 8 * h < s.length)
            logsumexp[(b * s.heads + head) * s.length + row + 8 * h] = most[h] * s.scale + logf(sum[h]);
    }
    store_rows<kDim>(HeadRows<bf16>(out, s, s.heads, b, head), row, s.length, sums, factor[0], factor[1]);
}

template <int kDim, bool kDropout>
void launch(cudaStream_t stream, const Tensor& qkv, const AttentionSizes& sizes, const Tensor& out,
            const Tensor& logsumexp) {
    auto* const kernel = matrix_forward_kernel<kDim, kDropout>;
    allow_shared(kernel, kForwardBytes<kDim>);
    const dim3 grid(blocks_for(sizes.length, kQueries), static_cast<unsigned>(sizes.heads),
                    static_cast<unsigned>(sizes.batch));
    kernel<<<grid, kThreads, kForwardBytes<kDim>, stream>>>(data<bf16>(qkv), sizes, writable<bf16>(out),
                                                            writable<float>(logsumexp));
    check_launch("attention_forward");
}

} // namespace

bool matrix_attention_supports(const Tensor& qkv, const Attention& attention,
                               std::initializer_list<Tensor> others) {
    const auto aligned = [](const Tensor& tensor) {
        return reinterpret_cast<std::uintptr_t>(tensor.data()) % 16 == 0;
    };
    bool all = aligned(qkv);
    for (const Tensor& tensor : others)
        all = all && aligned(tensor);
    return all && qkv.type() == DType::bf16 && (attention.head_dim == 64 || attention.head_dim == 128);
}

void matrix_attention_forward(cudaStream_t stream, const Tensor& qkv, const Attention& attention,
                              const Tensor& out, const Tensor& logsumexp) {
    const AttentionSizes sizes(qkv, attention);
    const auto choose = [&](auto dim) {
        if (sizes.dropout.active)
            launch<dim, true>(stream, qkv, sizes, out, logsumexp);
        else
            launch<dim, false>(stream, qkv, sizes, out, logsumexp);
    };
    if (sizes.dim == 64)
        choose(std::integral_constant<int, 64>{});
    else
        choose(std::integral_constant<int, 128>{});
}

} // namespace trireme::backend
