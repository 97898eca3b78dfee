// Sums over rows for every column, in a fixed order: blocks sum chunks of rows, cut by the shape alone, into
// partial sums, and a second kernel adds the chunks in order. Bias gradients and, where they are delayed, the
// weight gradients of norms are such sums.
#pragma once

#include <algorithm>

#include "backend/cuda/kernels.cuh"
#include "backend/cuda/scratch.hpp"
#include "trireme/backend/ops.hpp"

namespace trireme::backend {

inline constexpr int kRowLanes = kThreads / kWarp; // rows that a block reads at once

// What the partial sums of a block's row lanes add up to; lane 0 gets the result.
__device__ inline float over_row_lanes(float value, float (&lanes)[kRowLanes][kWarp]) {
    __syncthreads();
    lanes[threadIdx.y][threadIdx.x] = value;
    __syncthreads();
    float sum = 0;
    if (threadIdx.y == 0)
        for (int lane = 0; lane < kRowLanes; ++lane)
            sum += lanes[lane][threadIdx.x];
    return sum;
}

// partial [chunks, kSums, width]. terms(row, column, to): the addends of N columns from `column` for each
// sum.
template <int kSums, int N, class Terms>
__global__ void column_partials_kernel(std::int64_t rows, std::int64_t width, std::int64_t rows_per_chunk,
                                       Terms terms, float* partial) {
    __shared__ float lanes[kRowLanes][kWarp];
    const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * kWarp + threadIdx.x) * N;
    const std::int64_t begin = blockIdx.y * rows_per_chunk;
    const std::int64_t end = begin + rows_per_chunk < rows ? begin + rows_per_chunk : rows;
    float sums[kSums][N] = {};
    if (column < width)
        for (std::int64_t row = begin + threadIdx.y; row < end; row += kRowLanes) {
            float added[kSums][N];
            terms(row, column, added);
#pragma unroll
            for (int s = 0; s < kSums; ++s)
#pragma unroll
                for (int j = 0; j < N; ++j)
                    sums[s][j] += added[s][j];
        }
#pragma unroll
    for (int s = 0; s < kSums; ++s)
#pragma unroll
        for (int j = 0; j < N; ++j) {
            const float sum = over_row_lanes(sums[s][j], lanes);
            if (threadIdx.y == 0 && column < width)
                partial[(static_cast<std::int64_t>(blockIdx.y) * kSums + s) * width + column + j] = sum;
        }
}

// to[s] [width] = or += the sum over chunks.
template <int kSums>
struct ColumnTargets {
    float* to[kSums];
};
template <int kSums>
__global__ void column_totals_kernel(const float* partial, std::int64_t chunks, std::int64_t width,
                                     ColumnTargets<kSums> targets, GradWrite write) {
    __shared__ float lanes[kRowLanes][kWarp];
    const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarp + threadIdx.x;
    const int s = blockIdx.y;
    float sum = 0;
    if (column < width)
        for (std::int64_t chunk = threadIdx.y; chunk < chunks; chunk += kRowLanes)
            sum += partial[(chunk * kSums + s) * width + column];
    sum = over_row_lanes(sum, lanes);
    if (threadIdx.y == 0 && column < width) {
        float* const to = targets.to[s] + column;
        *to = write == GradWrite::accumulate ? *to + sum : sum;
    }
}

template <int kSums, int N, class Terms>
void sum_columns(cudaStream_t stream, DeviceScratch& scratch, std::int64_t rows, std::int64_t width,
                 const Terms& terms, const ColumnTargets<kSums>& targets, GradWrite write) {
    constexpr std::int64_t kEnoughBlocks = 1024; // keep any GPU busy
    const std::int64_t across = blocks_for(width, kWarp * N);
    std::int64_t chunks =
        std::max<std::int64_t>(1, std::min<std::int64_t>(kEnoughBlocks / across, blocks_for(rows, 32)));
    const std::int64_t rows_per_chunk = std::max<std::int64_t>(1, (rows + chunks - 1) / chunks);
    chunks = std::max<std::int64_t>(1, (rows + rows_per_chunk - 1) / rows_per_chunk);
    float* const partial = scratch.of<float>(chunks * kSums * width);
    const dim3 block(kWarp, kRowLanes);
    column_partials_kernel<kSums, N>
        <<<dim3(static_cast<unsigned>(across), static_cast<unsigned>(chunks)), block, 0, stream>>>(
            rows, width, rows_per_chunk, terms, partial);
    check_launch("sums of columns");
    column_totals_kernel<kSums>
        <<<dim3(blocks_for(width, kWarp), kSums), block, 0, stream>>>(partial, chunks, width, targets, write);
    check_launch("totals of columns");
}

} // namespace trireme::backend
