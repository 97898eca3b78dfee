// Attention backward on the matrix unit, by the formulas of attention_gradient.cu and in the same two
// kernels: one over tiles of queries for their gradients, one over tiles of keys for those of keys and
// values, so that each output is written by one block in a fixed order. The second computes its scores
// transposed, [keys, queries]: weights and gradients of scores then stand in registers as the next product's
// left operand.
#include "backend/cuda/attention_matrix.cuh"

namespace trireme::backend {
namespace {

using namespace matrix;

constexpr int kRows = 16 * kWarps; // queries of the first kernel's block, keys of the second's

// --- gradients of queries
constexpr int kKeys = 64;
template <int kDim>
constexpr int kQueryBytes = (2 * kRows + 4 * kKeys) * kDim* static_cast<int>(sizeof(bf16));

// Grid: tiles of queries, heads, batch. Shared: queries and grad_out [128][dim], two each of keys and values
// [64][dim].
template <int kDim, bool kDropout>
__global__ void __launch_bounds__(kThreads, 1)
    matrix_query_kernel(const bf16* grad_out, const bf16* qkv, const float* logsumexp, const float* delta,
                        AttentionSizes s, bf16* grad_qkv) {
    constexpr int kBlocks = kKeys / 8;
    extern __shared__ __align__(128) bf16 tiles[];
    bf16 *const queries = tiles, *const grads = queries + kRows * kDim, *const keys = grads + kRows * kDim,
                *const values = keys + 2 * kKeys * kDim;
    const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
    const std::int64_t q0 = (static_cast<std::int64_t>(gridDim.x) - 1 - blockIdx.x) * kRows;
    const std::int64_t head = blockIdx.y, b = blockIdx.z, group = s.group_of(head),
                       row = q0 + 16 * warp + lane / 4;
    const HeadRows<const bf16> from_keys(qkv, s, s.packed(), b, s.heads + group);
    const HeadRows<const bf16> from_values(qkv, s, s.packed(), b, s.heads + s.groups + group);
    const std::int64_t end = s.causal && q0 + kRows < s.length ? q0 + kRows : s.length;
    const std::int64_t seen[2] = {first_seen(s, b, row), first_seen(s, b, row + 8)};

    std::int64_t k0 = first_seen(s, b, q0) / kKeys * kKeys;
    fetch_tile<kRows, kDim>(HeadRows<const bf16>(qkv, s, s.packed(), b, head), q0, s.length, queries);
    fetch_tile<kRows, kDim>(HeadRows<const bf16>(grad_out, s, s.heads, b, head), q0, s.length, grads);
    fetch_tile<kKeys, kDim>(from_keys, k0, s.length, keys);
    fetch_tile<kKeys, kDim>(from_values, k0, s.length, values);
    commit();

    float lse[2], row_delta[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const bool exists = row + 8 * h < s.length;
        const std::int64_t at = (b * s.heads + head) * s.length + row + 8 * h;
        lse[h] = exists ? logsumexp[at] * kLog2E : INFINITY; // all weights 0 behind the end
        row_delta[h] = exists ? delta[at] : 0;
    }
    float sums[kDim / 8][4] = {};
    const float scale = s.scale * kLog2E;
    for (int buffer = 0; k0 < end; k0 += kKeys, buffer ^= 1) {
        wait_for_fetches();
        __syncthreads();
        if (k0 + kKeys < end) {
            fetch_tile<kKeys, kDim>(from_keys, k0 + kKeys, s.length, keys + (buffer ^ 1) * kKeys * kDim);
            fetch_tile<kKeys, kDim>(from_values, k0 + kKeys, s.length, values + (buffer ^ 1) * kKeys * kDim);
            commit();
        }
        if (s.causal && k0 > q0 + 16 * warp + 15)
            continue;
        float scores[kBlocks][4], products[kBlocks][4];
        row_products<kDim, kBlocks>(queries, 16 * warp, keys + buffer * kKeys * kDim, scores);
        row_products<kDim, kBlocks>(grads, 16 * warp, values + buffer * kKeys * kDim, products);
        if constexpr (kDropout) {
            const KeptOfRows<kBlocks> kept(s, b, head, q0 + 16 * warp, k0);
#pragma unroll
            for (int i = 0; i < kBlocks; ++i)
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    products[i][e] = kept(i, e) ? products[i][e] * s.dropout.factor : 0;
        }
        const bool all_seen = k0 + kKeys <= s.length && s.documents == nullptr &&
                              (!s.causal || k0 + kKeys - 1 <= q0 + 16 * warp);
#pragma unroll
        for (int i = 0; i < kBlocks; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const std::int64_t key = k0 + 8 * i + lane % 4 * 2 + e % 2, query = row + e / 2 * 8;
                const float p = power_of_two(fmaf(scores[i][e], scale, -lse[e / 2]));
                const bool hidden =
                    !all_seen && (key >= s.length || (s.causal && key > query) || key < seen[e / 2]);
                scores[i][e] = hidden ? 0 : p * (products[i][e] - row_delta[e / 2]);
            }
        add_weighted_rows<kDim, kBlocks>(scores, keys + buffer * kKeys * kDim, sums);
    }
    store_rows<kDim>(HeadRows<bf16>(grad_qkv, s, s.packed(), b, head), row, s.length, sums, s.scale, s.scale);
}

// --- gradients of keys and values
// Queries of a step: as many as registers allow beside the sums of keys and values.
template <int kDim>
constexpr int kStep = kDim == 64 ? 64 : 32;
template <int kDim>
constexpr int kKeyBytes = (2 * kRows + 4 * kStep<kDim>)*kDim* static_cast<int>(sizeof(bf16)) +
                          2 * 3 * kStep<kDim>* static_cast<int>(sizeof(float));

// What a step needs of its queries besides their vectors: two buffers of [kStep] each.
template <int kCount>
struct RowFacts {
    float *lse, *delta;
    std::int32_t* seen;
    __device__ explicit RowFacts(void* memory)
        : lse(static_cast<float*>(memory)), delta(lse + 2 * kCount),
          seen(reinterpret_cast<std::int32_t*>(delta + 2 * kCount)) {}
    __device__ void fetch(const AttentionSizes& s, const float* logsumexp, const float* deltas,
                          std::int64_t b, std::int64_t head, std::int64_t first, int buffer) const {
        const int i = static_cast<int>(threadIdx.x);
        if (i >= kCount)
            return;
        const std::int64_t at = (b * s.heads + head) * s.length + first + i;
        const bool exists = first + i < s.length;
        lse[buffer * kCount + i] = exists ? logsumexp[at] * kLog2E : INFINITY;
        delta[buffer * kCount + i] = exists ? deltas[at] : 0;
        seen[buffer * kCount + i] = static_cast<std::int32_t>(first_seen(s, b, first + i));
    }
};

// Grid: tiles of keys, groups, batch. The block walks over the heads that share its group and their queries.
// Shared: keys and values [128][dim], two each of queries and grad_out [kStep][dim], two of RowFacts.
template <int kDim, bool kDropout>
__global__ void __launch_bounds__(kThreads, 1)
    matrix_key_kernel(const bf16* grad_out, const bf16* qkv, const float* logsumexp, const float* delta,
                      AttentionSizes s, bf16* grad_qkv) {
    constexpr int kQueries = kStep<kDim>, kBlocks = kQueries / 8;
    extern __shared__ __align__(128) bf16 tiles[];
    bf16 *const keys = tiles, *const values = keys + kRows * kDim, *const queries = values + kRows * kDim,
                *const grads = queries + 2 * kQueries * kDim;
    const RowFacts<kQueries> facts(grads + 2 * kQueries * kDim);
    const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
    const std::int64_t k0 = static_cast<std::int64_t>(blockIdx.x) * kRows, group = blockIdx.y, b = blockIdx.z;
    const std::int64_t first_key = k0 + 16 * warp, row = first_key + lane / 4, shared_by = s.heads / s.groups;

    // Queries q_begin ... q_end - 1 may see a key of this block; documents do not go back.
    const std::int64_t q_begin = s.causal ? k0 : 0;
    std::int64_t steps = (s.length - q_begin + kQueries - 1) / kQueries;
    while (steps > 1 && first_seen(s, b, q_begin + (steps - 1) * kQueries) >= k0 + kRows)
        --steps;
    const auto fetch_step = [&](std::int64_t number, int buffer) {
        const std::int64_t head = group * shared_by + number / steps,
                           q0 = q_begin + number % steps * kQueries;
        fetch_tile<kQueries, kDim>(HeadRows<const bf16>(qkv, s, s.packed(), b, head), q0, s.length,
                                   queries + buffer * kQueries * kDim);
        fetch_tile<kQueries, kDim>(HeadRows<const bf16>(grad_out, s, s.heads, b, head), q0, s.length,
                                   grads + buffer * kQueries * kDim);
        facts.fetch(s, logsumexp, delta, b, head, q0, buffer);
        commit();
    };
    fetch_tile<kRows, kDim>(HeadRows<const bf16>(qkv, s, s.packed(), b, s.heads + group), k0, s.length, keys);
    fetch_tile<kRows, kDim>(HeadRows<const bf16>(qkv, s, s.packed(), b, s.heads + s.groups + group), k0,
                            s.length, values);
    fetch_step(0, 0);

    float key_sums[kDim / 8][4] = {}, value_sums[kDim / 8][4] = {};
    const float scale = s.scale * kLog2E;
    int buffer = 0;
    for (std::int64_t number = 0; number < shared_by * steps; ++number, buffer ^= 1) {
        const std::int64_t head = group * shared_by + number / steps,
                           q0 = q_begin + number % steps * kQueries;
        wait_for_fetches();
        __syncthreads();
        if (number + 1 < shared_by * steps)
            fetch_step(number + 1, buffer ^ 1);
        if (s.causal && q0 + kQueries - 1 < first_key)
            continue; // before all keys of this warp
        float weights[kBlocks][4], slopes[kBlocks][4];
        row_products<kDim, kBlocks>(keys, 16 * warp, queries + buffer * kQueries * kDim, weights);
        row_products<kDim, kBlocks>(values, 16 * warp, grads + buffer * kQueries * kDim, slopes);
        const bool all_seen = s.documents == nullptr && (!s.causal || first_key + 15 <= q0);
        const auto weigh = [&](auto&& keep) {
#pragma unroll
            for (int i = 0; i < kBlocks; ++i)
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const int column = 8 * i + lane % 4 * 2 + e % 2;
                    const std::int64_t key = row + e / 2 * 8;
                    const int at = buffer * kQueries + column;
                    float p = power_of_two(fmaf(weights[i][e], scale, -facts.lse[at]));
                    if (!all_seen && ((s.causal && key > q0 + column) || key < facts.seen[at]))
                        p = 0;
                    const bool kept = keep(i, e);
                    slopes[i][e] = p * ((kept ? slopes[i][e] * s.dropout.factor : 0) - facts.delta[at]);
                    weights[i][e] = kept ? p : 0; // times the factor, at the end
                }
        };
        if constexpr (kDropout)
            weigh(KeptOfColumns<kBlocks>(s, b, head, first_key, q0));
        else
            weigh([](int, int) { return true; });
        add_weighted_rows<kDim, kBlocks>(weights, grads + buffer * kQueries * kDim, value_sums);
        add_weighted_rows<kDim, kBlocks>(slopes, queries + buffer * kQueries * kDim, key_sums);
    }
    store_rows<kDim>(HeadRows<bf16>(grad_qkv, s, s.packed(), b, s.heads + group), row, s.length, key_sums,
                     s.scale, s.scale);
    store_rows<kDim>(HeadRows<bf16>(grad_qkv, s, s.packed(), b, s.heads + s.groups + group), row, s.length,
                     value_sums, s.dropout.factor, s.dropout.factor);
}

template <int kDim, bool kDropout>
void launch(cudaStream_t stream, const Tensor& grad_out, const Tensor& qkv, const Tensor& logsumexp,
            const float* delta, const AttentionSizes& sizes, const Tensor& grad_qkv) {
    const unsigned tiles = blocks_for(sizes.length, kRows);
    const auto start = [&](auto* kernel, std::int64_t heads, int bytes) {
        allow_shared(kernel, bytes);
        kernel<<<dim3(tiles, static_cast<unsigned>(heads), static_cast<unsigned>(sizes.batch)), kThreads,
                 static_cast<std::size_t>(bytes), stream>>>(data<bf16>(grad_out), data<bf16>(qkv),
                                                            data<float>(logsumexp), delta, sizes,
                                                            writable<bf16>(grad_qkv));
        check_launch("attention_input_gradient");
    };
    start(matrix_query_kernel<kDim, kDropout>, sizes.heads, kQueryBytes<kDim>);
    start(matrix_key_kernel<kDim, kDropout>, sizes.groups, kKeyBytes<kDim>);
}

} // namespace

void matrix_attention_input_gradient(cudaStream_t stream, const Tensor& grad_out, const Tensor& qkv,
                                     const Tensor& out, const Tensor& logsumexp, const Attention& attention,
                                     const Tensor& grad_qkv, DeviceScratch& scratch) {
    const AttentionSizes sizes(qkv, attention);
    const float* const delta = attention_delta(stream, grad_out, out, qkv, attention, scratch);
    const auto choose = [&](auto dim) {
        if (sizes.dropout.active)
            launch<dim, true>(stream, grad_out, qkv, logsumexp, delta, sizes, grad_qkv);
        else
            launch<dim, false>(stream, grad_out, qkv, logsumexp, delta, sizes, grad_qkv);
    };
    if (sizes.dim == 64)
        choose(std::integral_constant<int, 64>{});
    else
        choose(std::integral_constant<int, 128>{});
}

} // namespace trireme::backend
