// Token and position embeddings. The gradient of the token table sorts the tokens (a stable sort: equal
// tokens keep their order) and lets one block add up each run of equal tokens, so the sums have a fixed order
// without atomics.
#include <cub/device/device_radix_sort.cuh>

#include "backend/cuda/kernels.cuh"
#include "backend/cuda/operations.hpp"

namespace trireme::backend {
namespace {

constexpr int kRowLanes = kThreads / kWarp;

template <class T, int N>
__global__ void gather_kernel(const std::int32_t* tokens, const T* table, std::int64_t first_row,
                              std::int64_t table_rows, std::int64_t width, std::int64_t packs, T* out) {
    const std::int64_t i = global_thread() * N;
    if (i >= packs * N)
        return;
    const std::int64_t token = i / width, row = tokens[token] - first_row;
    float v[N] = {};
    if (row >= 0 && row < table_rows)
        load(table + row * width + (i - token * width), v);
    store(out + i, v);
}

// positions may be null: then token r = t * batch + b has row t. A position outside the table leaves NaN
// behind.
template <class T, int N>
__global__ void add_positions_kernel(const T* table, std::int64_t table_rows, const std::int32_t* positions,
                                     std::int64_t width, std::int64_t batch, std::int64_t packs, T* x) {
    const std::int64_t i = global_thread() * N;
    if (i >= packs * N)
        return;
    float v[N], p[N];
    load(x + i, v);
    const std::int64_t r = i / width, row = positions == nullptr ? r / batch : positions[r];
    if (row >= 0 && row < table_rows) {
        load(table + row * width + (i - r * width), p);
    } else {
#pragma unroll
        for (int j = 0; j < N; ++j)
            p[j] = NAN;
    }
#pragma unroll
    for (int j = 0; j < N; ++j)
        v[j] += p[j];
    store(x + i, v);
}

// Adds to `row` the rows first, first + 1 ... count of them, given by index(k), of grad [*, width]; the
// block's columns.
template <int N, class T, class Index>
__device__ void add_rows(const T* grad, std::int64_t width, std::int64_t count, const Index& index,
                         float* row) {
    __shared__ float lanes[kRowLanes][kWarp];
    const std::int64_t column = (static_cast<std::int64_t>(blockIdx.y) * kWarp + threadIdx.x) * N;
    float sums[N] = {};
    if (column < width)
        for (std::int64_t k = threadIdx.y; k < count; k += kRowLanes) {
            float v[N];
            load(grad + index(k) * width + column, v);
#pragma unroll
            for (int j = 0; j < N; ++j)
                sums[j] += v[j];
        }
#pragma unroll
    for (int j = 0; j < N; ++j) {
        __syncthreads();
        lanes[threadIdx.y][threadIdx.x] = sums[j];
        __syncthreads();
        if (threadIdx.y == 0 && column < width) {
            float total = row[column + j];
            for (int lane = 0; lane < kRowLanes && lane < count; ++lane)
                total += lanes[lane][threadIdx.x];
            row[column + j] = total;
        }
    }
}

// Keys are rows of the table, or table_rows for tokens that other ranks hold.
__global__ void keys_kernel(const std::int32_t* tokens, std::int64_t first_row, std::int32_t table_rows,
                            int count, std::int32_t* keys, std::int32_t* order) {
    const auto i = static_cast<int>(global_thread());
    if (i >= count)
        return;
    const std::int64_t row = tokens[i] - first_row;
    keys[i] = row >= 0 && row < table_rows ? static_cast<std::int32_t>(row) : table_rows;
    order[i] = i;
}

// Block i does nothing unless a run of equal keys begins at i.
template <class T, int N>
__global__ void run_sums_kernel(const std::int32_t* keys, const std::int32_t* order, std::int64_t count,
                                std::int32_t table_rows, const T* grad, std::int64_t width, float* table) {
    const std::int64_t begin = blockIdx.x;
    const std::int32_t key = keys[begin];
    if (key == table_rows || (begin > 0 && keys[begin - 1] == key))
        return;
    std::int64_t low = begin, high = count; // the run's end lies in (low, high]
    while (high - low > 1) {
        const std::int64_t middle = (low + high) / 2;
        (keys[middle] == key ? low : high) = middle;
    }
    add_rows<N>(
        grad, width, high - begin,
        [&](std::int64_t k) { return static_cast<std::int64_t>(order[begin + k]); }, table + key * width);
}

template <class T, int N>
__global__ void position_sums_kernel(const T* grad, std::int64_t batch, std::int64_t width, float* table) {
    const std::int64_t t = blockIdx.x;
    add_rows<N>(
        grad, width, batch, [&](std::int64_t b) { return t * batch + b; }, table + t * width);
}

} // namespace

void CudaOperations::do_embedding_forward(const Tensor& tokens, const Tensor& table, std::int64_t first_row,
                                          Tensor out) {
    if (out.elements() == 0)
        return;
    dispatch("embedding_forward", table.type(), [&](auto zero) {
        using T = decltype(zero);
        const std::int64_t width = columns(table);
        dispatch_packs<T>(fits_packs<T>(width, table, out), [&](auto n) {
            const std::int64_t packs = out.elements() / n;
            gather_kernel<T, n><<<blocks_for(packs, kThreads), kThreads, 0, stream_>>>(
                data<std::int32_t>(tokens), data<T>(table), first_row, rows(table), width, packs,
                writable<T>(out));
            check_launch("embedding_forward");
        });
    });
}

void CudaOperations::do_embedding_weight_gradient(const Tensor& tokens, const Tensor& grad_out,
                                                  std::int64_t first_row, Tensor grad_table) {
    const auto count = static_cast<int>(tokens.elements());
    if (count == 0 || grad_table.elements() == 0)
        return;
    const auto table_rows = static_cast<std::int32_t>(rows(grad_table));
    int bits = 1;
    while ((std::int64_t{1} << bits) <= table_rows)
        ++bits;
    std::size_t sort_bytes = 0;
    const std::int32_t* const none = nullptr;
    check(cub::DeviceRadixSort::SortPairs(nullptr, sort_bytes, none, static_cast<std::int32_t*>(nullptr),
                                          none, static_cast<std::int32_t*>(nullptr), count, 0, bits, stream_),
          "size of the sort of tokens");
    const std::int64_t stride = (count + 63) / 64 * 64;
    auto* const keys = scratch_.of<std::int32_t>(4 * stride + static_cast<std::int64_t>(sort_bytes + 3) / 4);
    std::int32_t *const sorted = keys + stride, *const order = sorted + stride,
                        *const by_key = order + stride;
    keys_kernel<<<blocks_for(count, kThreads), kThreads, 0, stream_>>>(data<std::int32_t>(tokens), first_row,
                                                                       table_rows, count, keys, order);
    check_launch("keys of tokens");
    check(cub::DeviceRadixSort::SortPairs(by_key + stride, sort_bytes, keys, sorted, order, by_key, count, 0,
                                          bits, stream_),
          "sort of tokens");
    dispatch("embedding_weight_gradient", grad_out.type(), [&](auto zero) {
        using T = decltype(zero);
        const std::int64_t width = columns(grad_out);
        dispatch_packs<T>(fits_packs<T>(width, grad_out), [&](auto n) {
            run_sums_kernel<T, n><<<dim3(static_cast<unsigned>(count), blocks_for(width, kWarp * n)),
                                    dim3(kWarp, kRowLanes), 0, stream_>>>(
                sorted, by_key, count, table_rows, data<T>(grad_out), width, writable<float>(grad_table));
            check_launch("embedding_weight_gradient");
        });
    });
}

void CudaOperations::do_position_forward(const Tensor& table, std::int64_t first_position, Tensor x) {
    if (x.elements() == 0)
        return;
    dispatch("position_forward", table.type(), [&](auto zero) {
        using T = decltype(zero);
        const std::int64_t width = columns(table);
        const Tensor used = table.rows(first_position, x.shape()[0]);
        dispatch_packs<T>(fits_packs<T>(width, used, x), [&](auto n) {
            const std::int64_t packs = x.elements() / n;
            add_positions_kernel<T, n><<<blocks_for(packs, kThreads), kThreads, 0, stream_>>>(
                data<T>(used), used.shape()[0], nullptr, width, x.shape()[1], packs, writable<T>(x));
            check_launch("position_forward");
        });
    });
}

void CudaOperations::do_position_lookup_forward(const Tensor& table, const Tensor& positions, Tensor x) {
    if (x.elements() == 0)
        return;
    dispatch("position_lookup_forward", table.type(), [&](auto zero) {
        using T = decltype(zero);
        const std::int64_t width = columns(table);
        dispatch_packs<T>(fits_packs<T>(width, table, x), [&](auto n) {
            const std::int64_t packs = x.elements() / n;
            add_positions_kernel<T, n><<<blocks_for(packs, kThreads), kThreads, 0, stream_>>>(
                data<T>(table), rows(table), data<std::int32_t>(positions), width, x.shape()[1], packs,
                writable<T>(x));
            check_launch("position_lookup_forward");
        });
    });
}

// A position is a row of a table like a token.
void CudaOperations::do_position_lookup_weight_gradient(const Tensor& grad_out, const Tensor& positions,
                                                        Tensor grad_table) {
    do_embedding_weight_gradient(positions, grad_out, 0, grad_table);
}

void CudaOperations::do_position_weight_gradient(const Tensor& grad_out, std::int64_t first_position,
                                                 Tensor grad_table) {
    if (grad_out.elements() == 0)
        return;
    dispatch("position_weight_gradient", grad_out.type(), [&](auto zero) {
        using T = decltype(zero);
        const std::int64_t width = columns(grad_out);
        dispatch_packs<T>(fits_packs<T>(width, grad_out), [&](auto n) {
            position_sums_kernel<T, n>
                <<<dim3(static_cast<unsigned>(grad_out.shape()[0]), blocks_for(width, kWarp * n)),
                   dim3(kWarp, kRowLanes), 0, stream_>>>(data<T>(grad_out), grad_out.shape()[1], width,
                                                         writable<float>(grad_table) +
                                                             first_position * width);
            check_launch("position_weight_gradient");
        });
    });
}

} // namespace trireme::backend
