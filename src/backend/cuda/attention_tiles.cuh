// What the own attention kernels share. A block of 256 threads works on a tile of 32 queries x 32 keys whose
// rows lie in shared memory as floats, padded by one so that a column's elements fall into different banks.
// Thread t has row t / 8 of a tile and of it the columns (or dimensions) t % 8, t % 8 + 8, ...
#pragma once

#include "backend/cuda/attention_kernels.hpp"
#include "backend/cuda/kernels.cuh"
#include "backend/cuda/random.cuh"

namespace trireme::backend {

inline constexpr int kTile = 32;                        // queries or keys
inline constexpr int kColumnLanes = kThreads / kTile;   // threads of a row
inline constexpr int kPerThread = kTile / kColumnLanes; // elements of a tile row that a thread has
inline constexpr int kTileStride = kTile + 1;

struct AttentionSizes {
    std::int64_t length, batch, heads, groups;
    int dim;
    std::uint32_t first_head;
    float scale;
    bool causal;
    const std::int32_t* documents; // [T, B]: the first key that a query sees, or null
    DeviceDropout dropout;

    AttentionSizes(const Tensor& qkv, const Attention& a)
        : length(qkv.shape()[0]), batch(qkv.shape()[1]), heads(a.heads), groups(a.groups),
          dim(static_cast<int>(a.head_dim)), first_head(static_cast<std::uint32_t>(a.first_head)),
          scale(static_cast<float>(a.scale)), causal(a.causal == Causal::yes),
          documents(a.documents.defined() ? data<std::int32_t>(a.documents) : nullptr), dropout(a.dropout) {}

    __device__ std::int64_t packed() const { return heads + 2 * groups; }
    __device__ std::int64_t group_of(std::int64_t head) const { return head * groups / heads; }
};

// Row t of one head in [T, B, heads, D]: base + t * stride.
template <class T>
struct HeadRows {
    T* base;
    std::int64_t stride;
    __device__ HeadRows(T* data, const AttentionSizes& s, std::int64_t heads, std::int64_t b,
                        std::int64_t head)
        : base(data + (b * heads + head) * s.dim), stride(s.batch * heads * s.dim) {}
    __device__ T* row(std::int64_t t) const { return base + t * stride; }
};

// Rows first ... first + 31 into shared memory [32][dim + 1]; zeros behind the end.
template <class T>
__device__ void load_tile(const HeadRows<const T>& from, std::int64_t first, std::int64_t length, int dim,
                          float* to) {
    for (int r = static_cast<int>(threadIdx.x) / kWarp; r < kTile; r += kThreads / kWarp)
        for (int d = static_cast<int>(threadIdx.x) % kWarp; d < dim; d += kWarp)
            to[r * (dim + 1) + d] = first + r < length ? widen(from.row(first + r)[d]) : 0;
}

// Elements (row, lane + 8 j) of A B^T, both [32][dim + 1] in shared memory.
__device__ inline void tile_products(const float* a, const float* b, int dim, int row, int lane,
                                     float (&to)[kPerThread]) {
#pragma unroll
    for (int j = 0; j < kPerThread; ++j)
        to[j] = 0;
    for (int d = 0; d < dim; ++d) {
        const float left = a[row * (dim + 1) + d];
#pragma unroll
        for (int j = 0; j < kPerThread; ++j)
            to[j] += left * b[(lane + kColumnLanes * j) * (dim + 1) + d];
    }
}

__device__ inline bool visible(const AttentionSizes& s, std::int64_t b, std::int64_t query,
                               std::int64_t key) {
    return query < s.length && key < s.length && (!s.causal || key <= query) &&
           (s.documents == nullptr || key >= s.documents[query * s.batch + b]);
}

// The dropout multiplier of one weight.
__device__ inline float dropout_of(const AttentionSizes& s, std::int64_t b, std::int64_t head,
                                   std::int64_t query, std::int64_t key) {
    float words[4];
    s.dropout.multipliers(b, static_cast<std::uint32_t>(query), static_cast<std::uint32_t>(key / 4),
                          s.first_head + static_cast<std::uint32_t>(head), words);
    const int j = static_cast<int>(key % 4);
    return j == 0 ? words[0] : j == 1 ? words[1] : j == 2 ? words[2] : words[3];
}

// Over the 8 threads of a tile row.
template <class Combine>
__device__ inline float over_row(float value, Combine combine) {
#pragma unroll
    for (int distance = kColumnLanes / 2; distance > 0; distance /= 2)
        value = combine(value, __shfl_xor_sync(0xFFFFFFFFu, value, distance));
    return value;
}

// compute(zero of the type, integral constant: dimensions of a thread), for head sizes to 64, 128 and 256.
template <class Compute>
void dispatch_attention(const char* operation, const Tensor& qkv, const Attention& attention,
                        const Compute& compute) {
    if (attention.head_dim > kMostHeadDim)
        throw Error(
            ErrorCategory::usage,
            concat("a head size of ", attention.head_dim, " is more than the CUDA backend's ", kMostHeadDim),
            {"try: more --num-attention-heads, or a smaller --kv-channels"});
    dispatch(operation, qkv.type(), [&](auto zero) {
        if (attention.head_dim <= 64)
            compute(zero, std::integral_constant<int, 64 / kColumnLanes>{});
        else if (attention.head_dim <= 128)
            compute(zero, std::integral_constant<int, 128 / kColumnLanes>{});
        else
            compute(zero, std::integral_constant<int, 256 / kColumnLanes>{});
    });
}

// Shared memory beyond 48 KiB has to be asked for.
template <class Kernel>
void allow_shared(Kernel* kernel, int bytes) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
          "shared memory of attention");
}

} // namespace trireme::backend
