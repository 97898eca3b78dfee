// Bytes of device scratch that operations take, as functions of shapes, in plain C++: the memory plan counts
// by them on machines without a GPU too (backend/dry). Bounds where the exact size depends on the device.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trireme/backend/ops.hpp"
#include "trireme/base/sizes.hpp"

namespace trireme::backend::cuda_scratch {

inline constexpr std::int64_t kGemmWorkspaceBytes = std::int64_t{32} << 20; // what cuBLAS asks for on Hopper
inline constexpr std::int64_t kSquaresBlocks = 1024;

// sum_columns: at most 1024 blocks of at most 32 x 8 columns each hold partial sums.
constexpr std::int64_t column_sums(std::int64_t width, int sums) {
    constexpr std::int64_t kMostPartials = std::int64_t{1024} * 32 * 8;
    return 4 * sums * std::max(width, kMostPartials);
}
// Both gradients of a norm at once: twelve warps hold a row of whole packs of 16 bytes, four a thread.
inline constexpr int kNormGradientWarps = 12, kNormGradientPacks = 4;
constexpr bool norm_gradients_at_once(std::int64_t width, std::int64_t element_bytes) {
    const std::int64_t pack = 16 / element_bytes;
    return width % pack == 0 && width <= std::int64_t{kNormGradientWarps} * 32 * kNormGradientPacks * pack;
}
// Blocks, each with sums of its own: up to four for a multiprocessor, while what they write is small beside
// what they read.
inline constexpr std::int64_t kMostMultiprocessors = 160, kMostNormWaves = 4, kRowsForSums = 16;
constexpr std::int64_t norm_gradient_blocks(std::int64_t rows, int sums, std::int64_t multiprocessors) {
    const std::int64_t at_once = std::min(multiprocessors, kMostMultiprocessors);
    return at_once * std::clamp<std::int64_t>(rows / (kRowsForSums * sums * at_once), 1, kMostNormWaves);
}
// On any number of multiprocessors.
constexpr std::int64_t norm_gradient(std::int64_t rows, std::int64_t width, int sums) {
    return 4 * sums * width *
           std::clamp<std::int64_t>(rows / (kRowsForSums * sums), kMostMultiprocessors,
                                    kMostNormWaves * kMostMultiprocessors);
}
constexpr std::int64_t squares() {
    return 8 * kSquaresBlocks;
}
// The weight gradient of an embedding: four arrays, and the radix sort's two copies and its counters.
constexpr std::int64_t token_sort(std::int64_t tokens) {
    constexpr std::int64_t kCounters = std::int64_t{1} << 20;
    return 16 * round_up(tokens, 64) + 8 * tokens + kCounters;
}
// The own kernels keep one sum a query.
constexpr std::int64_t own_attention_gradient(std::int64_t batch, std::int64_t heads, std::int64_t length) {
    return 4 * batch * heads * length;
}
// On Hopper they keep a second sum, both padded, and a bit for each weight that dropout may drop.
inline constexpr std::int64_t kPaddedLength = 128;
constexpr std::int64_t padded_length(std::int64_t length) {
    return round_up(length, kPaddedLength);
}
constexpr std::int64_t kept_words(std::int64_t batch, std::int64_t heads, std::int64_t length) {
    return batch * heads * padded_length(length) * (padded_length(length) / 32);
}
constexpr std::int64_t hopper_attention_gradient(std::int64_t batch, std::int64_t heads, std::int64_t length,
                                                 bool dropout) {
    return 8 * batch * heads * padded_length(length) + (dropout ? 4 * kept_words(batch, heads, length) : 0);
}
// Whether the kernels for Hopper serve where cuDNN does not (on another GPU it is a bound).
inline bool hopper_serves(DType type, const Attention& attention) {
    return type == DType::bf16 && (attention.head_dim == 64 || attention.head_dim == 128);
}
// Whether cuDNN has a kernel (as CudnnAttention::supports() asks it), else the own ones serve.
inline bool cudnn_serves(DType type, const Attention& attention) {
    return type == DType::bf16 && attention.dropout.probability == 0 && !attention.documents.defined() &&
           attention.head_dim % 8 == 0 && attention.head_dim <= 128;
}
// cuDNN's deterministic backward pass keeps a gradient of the queries in fp32 for each block of 128 keys, so
// that they are added in order: 1.5 GiB at 64 x 12 heads of 64, length 1024, and 0.5 GiB at 2 x 16 heads of
// 128, length 2048, as measured on an H200; and two statistics a query.
constexpr std::int64_t cudnn_attention_gradient(std::int64_t batch, std::int64_t heads, std::int64_t length,
                                                std::int64_t head_dim) {
    constexpr std::int64_t kKeys = 128;
    const std::int64_t padded = round_up(length, kKeys);
    return 4 * batch * heads * padded * (head_dim * (padded / kKeys) + 2);
}

} // namespace trireme::backend::cuda_scratch
