// Attention forward without the T x T weights: a tile of queries walks over the tiles of keys with a running
// maximum and sum per query (Rabe and Staats 2021; Dao et al. 2022).
#include "backend/cuda/attention_tiles.cuh"

namespace trireme::backend {
namespace {

// Grid: tiles of queries, heads, batch. Shared: queries, keys or values [32][dim + 1] each, weights [32][33].
template <class T, int kDims>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const T* qkv, AttentionSizes s, T* out, float* logsumexp) {
    extern __shared__ float shared[];
    float *const queries = shared, *const keys = queries + kTile * (s.dim + 1),
                 *const weights = keys + kTile * (s.dim + 1);
    const int row = static_cast<int>(threadIdx.x) / kColumnLanes,
              lane = static_cast<int>(threadIdx.x) % kColumnLanes;
    // The last tile of queries sees most keys: long blocks first.
    const std::int64_t q0 = (static_cast<std::int64_t>(gridDim.x) - 1 - blockIdx.x) * kTile;
    const std::int64_t head = blockIdx.y, b = blockIdx.z, query = q0 + row;
    const HeadRows<const T> from_queries(qkv, s, s.packed(), b, head);
    const HeadRows<const T> from_keys(qkv, s, s.packed(), b, s.heads + s.group_of(head));
    const HeadRows<const T> from_values(qkv, s, s.packed(), b, s.heads + s.groups + s.group_of(head));

    load_tile(from_queries, q0, s.length, s.dim, queries);
    float sums[kDims] = {};
    float most = -INFINITY, sum = 0;
    const std::int64_t end = s.causal && q0 + kTile < s.length ? q0 + kTile : s.length;
    for (std::int64_t k0 = 0; k0 < end; k0 += kTile) {
        __syncthreads(); // the values of the last round have been read
        load_tile(from_keys, k0, s.length, s.dim, keys);
        __syncthreads();
        float score[kPerThread];
        tile_products(queries, keys, s.dim, row, lane, score);
        float highest = most;
#pragma unroll
        for (int j = 0; j < kPerThread; ++j) {
            score[j] = visible(s, b, query, k0 + lane + kColumnLanes * j) ? score[j] * s.scale : -INFINITY;
            highest = Maximum{}(score[j], highest);
        }
        highest = over_row(highest, Maximum{});
        // A row behind the end sees nothing: keep its exponents finite.
        const float base = highest == -INFINITY ? 0 : highest;
        const float shrink = expf(most - base);
        float added = 0;
#pragma unroll
        for (int j = 0; j < kPerThread; ++j) {
            const std::int64_t key = k0 + lane + kColumnLanes * j;
            float weight = expf(score[j] - base);
            added += weight; // of all weights: dropout comes after the softmax
            if (s.dropout.active && weight != 0)
                weight *= dropout_of(s, b, head, query, key);
            weights[row * kTileStride + lane + kColumnLanes * j] = weight;
        }
        sum = sum * shrink + over_row(added, Sum{});
        most = highest;
        __syncthreads(); // keys have been read, weights are written
        load_tile(from_values, k0, s.length, s.dim, keys);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kDims; ++i)
            sums[i] *= shrink;
        for (int k = 0; k < kTile; ++k) {
            const float weight = weights[row * kTileStride + k];
#pragma unroll
            for (int i = 0; i < kDims; ++i)
                if (lane + kColumnLanes * i < s.dim)
                    sums[i] += weight * keys[k * (s.dim + 1) + lane + kColumnLanes * i];
        }
    }
    if (query >= s.length)
        return;
    T* const to = HeadRows<T>(out, s, s.heads, b, head).row(query);
#pragma unroll
    for (int i = 0; i < kDims; ++i)
        if (lane + kColumnLanes * i < s.dim)
            to[lane + kColumnLanes * i] = narrow<T>(sums[i] / sum);
    if (lane == 0)
        logsumexp[(b * s.heads + head) * s.length + query] = most + logf(sum);
}

} // namespace

void own_attention_forward(cudaStream_t stream, const Tensor& qkv, const Attention& attention,
                           const Tensor& out, const Tensor& logsumexp) {
    dispatch_attention("attention_forward", qkv, attention, [&](auto zero, auto dims) {
        using T = decltype(zero);
        const AttentionSizes sizes(qkv, attention);
        const int bytes = 4 * (2 * kTile * (sizes.dim + 1) + kTile * kTileStride);
        auto* const kernel = forward_kernel<T, dims>;
        allow_shared(kernel, bytes);
        const dim3 grid(blocks_for(sizes.length, kTile), static_cast<unsigned>(sizes.heads),
                        static_cast<unsigned>(sizes.batch));
        kernel<<<grid, kThreads, static_cast<std::size_t>(bytes), stream>>>(
            data<T>(qkv), sizes, writable<T>(out), writable<float>(logsumexp));
        check_launch("attention_forward");
    });
}

} // namespace trireme::backend
