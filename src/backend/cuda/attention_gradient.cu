// Attention backward: the weights come back as P = e^(scores - logsumexp), tile by tile. With Z the dropout
// multipliers and delta = sum over d of grad_out * out, for one head:
//     grad V = (P Z)^T grad_out        grad S = P (Z (grad_out V^T) - delta)
//     grad Q = scale grad S K          grad K = scale (grad S)^T Q
// Two kernels, one over tiles of queries and one over tiles of keys: each output is written by one block, in
// a fixed order, at the price of computing the weights twice.
#include "backend/cuda/attention_tiles.cuh"

namespace trireme::backend {
namespace {

// delta [B, H, T]: a warp for each.
template <class T>
__global__ void delta_kernel(const T* grad_out, const T* out, AttentionSizes s, float* delta) {
    const std::int64_t index = global_thread() / kWarp;
    if (index >= s.batch * s.heads * s.length)
        return;
    const std::int64_t t = index % s.length, head = index / s.length % s.heads,
                       b = index / s.length / s.heads;
    const T *const g = HeadRows<const T>(grad_out, s, s.heads, b, head).row(t),
                   *const o = HeadRows<const T>(out, s, s.heads, b, head).row(t);
    float sum = 0;
    for (int d = static_cast<int>(threadIdx.x) % kWarp; d < s.dim; d += kWarp)
        sum += widen(g[d]) * widen(o[d]);
    sum = over_warp(sum, Sum{});
    if (threadIdx.x % kWarp == 0)
        delta[index] = sum;
}

// For element (query, key) with score s and product g = grad_out . value: P Z and scale * grad S.
__device__ void weigh(const AttentionSizes& s, std::int64_t b, std::int64_t head, std::int64_t query,
                      std::int64_t key, float lse, float delta, float score, float product, float& weight,
                      float& gradient) {
    weight = gradient = 0;
    if (!visible(s, b, query, key))
        return;
    const float p = expf(score * s.scale - lse);
    const float z = s.dropout.active ? dropout_of(s, b, head, query, key) : 1;
    weight = p * z;
    gradient = s.scale * p * (z * product - delta);
}

// Grid: tiles of queries, heads, batch. Shared: queries, grad_out, keys, values [32][dim + 1], grad S
// [32][33].
template <class T, int kDims>
__global__ void __launch_bounds__(kThreads)
    query_gradient_kernel(const T* grad_out, const T* qkv, const float* logsumexp, const float* delta,
                          AttentionSizes s, T* grad_qkv) {
    extern __shared__ float shared[];
    const int tile = kTile * (s.dim + 1);
    float *const queries = shared, *const grads = queries + tile, *const keys = grads + tile,
                 *const values = keys + tile, *const products = values + tile;
    const int row = static_cast<int>(threadIdx.x) / kColumnLanes,
              lane = static_cast<int>(threadIdx.x) % kColumnLanes;
    const std::int64_t q0 = (static_cast<std::int64_t>(gridDim.x) - 1 - blockIdx.x) * kTile;
    const std::int64_t head = blockIdx.y, b = blockIdx.z, query = q0 + row,
                       at = (b * s.heads + head) * s.length + query;
    const std::int64_t group = s.group_of(head);
    load_tile(HeadRows<const T>(qkv, s, s.packed(), b, head), q0, s.length, s.dim, queries);
    load_tile(HeadRows<const T>(grad_out, s, s.heads, b, head), q0, s.length, s.dim, grads);
    const float lse = query < s.length ? logsumexp[at] : 0, row_delta = query < s.length ? delta[at] : 0;
    float sums[kDims] = {};
    const std::int64_t end = s.causal && q0 + kTile < s.length ? q0 + kTile : s.length;
    for (std::int64_t k0 = 0; k0 < end; k0 += kTile) {
        __syncthreads();
        load_tile(HeadRows<const T>(qkv, s, s.packed(), b, s.heads + group), k0, s.length, s.dim, keys);
        load_tile(HeadRows<const T>(qkv, s, s.packed(), b, s.heads + s.groups + group), k0, s.length, s.dim,
                  values);
        __syncthreads();
        float score[kPerThread], product[kPerThread];
        tile_products(queries, keys, s.dim, row, lane, score);
        tile_products(grads, values, s.dim, row, lane, product);
#pragma unroll
        for (int j = 0; j < kPerThread; ++j) {
            float weight, gradient;
            weigh(s, b, head, query, k0 + lane + kColumnLanes * j, lse, row_delta, score[j], product[j],
                  weight, gradient);
            products[row * kTileStride + lane + kColumnLanes * j] = gradient;
        }
        __syncthreads();
        for (int k = 0; k < kTile; ++k) {
            const float gradient = products[row * kTileStride + k];
#pragma unroll
            for (int i = 0; i < kDims; ++i)
                if (lane + kColumnLanes * i < s.dim)
                    sums[i] += gradient * keys[k * (s.dim + 1) + lane + kColumnLanes * i];
        }
    }
    if (query >= s.length)
        return;
    T* const to = HeadRows<T>(grad_qkv, s, s.packed(), b, head).row(query);
#pragma unroll
    for (int i = 0; i < kDims; ++i)
        if (lane + kColumnLanes * i < s.dim)
            to[lane + kColumnLanes * i] = narrow<T>(sums[i]);
}

// Grid: tiles of keys, groups, batch. The block walks over the heads that share its group and their queries.
// Row and lane are those of keys here: thread t has key t / 8 and queries t % 8 + 8 j. Shared: as above, and
// P Z [32][33].
template <class T, int kDims>
__global__ void __launch_bounds__(kThreads)
    key_gradient_kernel(const T* grad_out, const T* qkv, const float* logsumexp, const float* delta,
                        AttentionSizes s, T* grad_qkv) {
    extern __shared__ float shared[];
    const int tile = kTile * (s.dim + 1);
    float *const queries = shared, *const grads = queries + tile, *const keys = grads + tile,
                 *const values = keys + tile, *const products = values + tile,
                 *const weights = products + kTile * kTileStride;
    const int row = static_cast<int>(threadIdx.x) / kColumnLanes,
              lane = static_cast<int>(threadIdx.x) % kColumnLanes;
    const std::int64_t k0 = static_cast<std::int64_t>(blockIdx.x) * kTile, group = blockIdx.y, b = blockIdx.z;
    const std::int64_t key = k0 + row, shared_by = s.heads / s.groups;
    load_tile(HeadRows<const T>(qkv, s, s.packed(), b, s.heads + group), k0, s.length, s.dim, keys);
    load_tile(HeadRows<const T>(qkv, s, s.packed(), b, s.heads + s.groups + group), k0, s.length, s.dim,
              values);
    float key_sums[kDims] = {}, value_sums[kDims] = {};
    for (std::int64_t head = group * shared_by; head < (group + 1) * shared_by; ++head) {
        const float* const lse = logsumexp + (b * s.heads + head) * s.length;
        const float* const deltas = delta + (b * s.heads + head) * s.length;
        for (std::int64_t q0 = s.causal ? k0 : 0; q0 < s.length; q0 += kTile) {
            __syncthreads();
            load_tile(HeadRows<const T>(qkv, s, s.packed(), b, head), q0, s.length, s.dim, queries);
            load_tile(HeadRows<const T>(grad_out, s, s.heads, b, head), q0, s.length, s.dim, grads);
            __syncthreads();
            float score[kPerThread], product[kPerThread];
            tile_products(keys, queries, s.dim, row, lane, score);
            tile_products(values, grads, s.dim, row, lane, product);
#pragma unroll
            for (int j = 0; j < kPerThread; ++j) {
                const std::int64_t query = q0 + lane + kColumnLanes * j;
                const bool exists = query < s.length;
                float weight, gradient;
                weigh(s, b, head, query, key, exists ? lse[query] : 0, exists ? deltas[query] : 0, score[j],
                      product[j], weight, gradient);
                weights[row * kTileStride + lane + kColumnLanes * j] = weight;
                products[row * kTileStride + lane + kColumnLanes * j] = gradient;
            }
            __syncthreads();
            for (int q = 0; q < kTile; ++q) {
                const float weight = weights[row * kTileStride + q],
                            gradient = products[row * kTileStride + q];
#pragma unroll
                for (int i = 0; i < kDims; ++i)
                    if (const int d = lane + kColumnLanes * i; d < s.dim) {
                        value_sums[i] += weight * grads[q * (s.dim + 1) + d];
                        key_sums[i] += gradient * queries[q * (s.dim + 1) + d];
                    }
            }
        }
    }
    if (key >= s.length)
        return;
    T* const to_key = HeadRows<T>(grad_qkv, s, s.packed(), b, s.heads + group).row(key);
    T* const to_value = HeadRows<T>(grad_qkv, s, s.packed(), b, s.heads + s.groups + group).row(key);
#pragma unroll
    for (int i = 0; i < kDims; ++i)
        if (const int d = lane + kColumnLanes * i; d < s.dim) {
            to_key[d] = narrow<T>(key_sums[i]);
            to_value[d] = narrow<T>(value_sums[i]);
        }
}

} // namespace

float* attention_delta(cudaStream_t stream, const Tensor& grad_out, const Tensor& out, const Tensor& qkv,
                       const Attention& attention, DeviceScratch& scratch) {
    const AttentionSizes sizes(qkv, attention);
    const std::int64_t statistics = sizes.batch * sizes.heads * sizes.length;
    float* const delta = scratch.of<float>(statistics);
    dispatch("attention_input_gradient", qkv.type(), [&](auto zero) {
        using T = decltype(zero);
        delta_kernel<T><<<blocks_for(statistics * kWarp, kThreads), kThreads, 0, stream>>>(
            data<T>(grad_out), data<T>(out), sizes, delta);
        check_launch("attention_input_gradient");
    });
    return delta;
}

void own_attention_input_gradient(cudaStream_t stream, const Tensor& grad_out, const Tensor& qkv,
                                  const Tensor& out, const Tensor& logsumexp, const Attention& attention,
                                  const Tensor& grad_qkv, DeviceScratch& scratch) {
    dispatch_attention("attention_input_gradient", qkv, attention, [&](auto zero, auto dims) {
        using T = decltype(zero);
        const AttentionSizes sizes(qkv, attention);
        float* const delta = attention_delta(stream, grad_out, out, qkv, attention, scratch);
        const unsigned tiles = blocks_for(sizes.length, kTile);
        const int tile_bytes = 4 * kTile * (sizes.dim + 1), product_bytes = 4 * kTile * kTileStride;
        const auto launch = [&](auto* kernel, std::int64_t heads, int bytes) {
            allow_shared(kernel, bytes);
            kernel<<<dim3(tiles, static_cast<unsigned>(heads), static_cast<unsigned>(sizes.batch)), kThreads,
                     static_cast<std::size_t>(bytes), stream>>>(
                data<T>(grad_out), data<T>(qkv), data<float>(logsumexp), delta, sizes, writable<T>(grad_qkv));
            check_launch("attention_input_gradient");
        };
        launch(query_gradient_kernel<T, dims>, sizes.heads, 4 * tile_bytes + product_bytes);
        launch(key_gradient_kernel<T, dims>, sizes.groups, 4 * tile_bytes + 2 * product_bytes);
    });
}

} // namespace trireme::backend
