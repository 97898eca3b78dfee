// Cross-entropy over a vocabulary of which this rank holds some rows, in the steps that ops.hpp fixes. A
// block takes a token; the logits are read once by each step and overwritten by their gradient.
#include <algorithm>
#include <limits>

#include "backend/cuda/cross_entropy_cluster.cuh"
#include "backend/cuda/kernels.cuh"
#include "backend/cuda/operations.hpp"

namespace trireme::backend {
namespace {

constexpr int kWarps = kThreads / kWarp;

// visit(column, values, valid values) over the packs of a row that hold at least one of `valid` columns.
template <int N, class T, class Visit>
__device__ void walk_row(const T* row, std::int64_t valid, const Visit& visit) {
#pragma unroll 4
    for (std::int64_t c = static_cast<std::int64_t>(threadIdx.x) * N; c < valid; c += kThreads * N) {
        float v[N];
        load(row + c, v);
        visit(c, v, valid - c < N ? static_cast<int>(valid - c) : N);
    }
}

template <class T, int N>
__global__ void maximum_kernel(const T* logits, std::int64_t width, std::int64_t valid, float* maximum) {
    const std::int64_t r = blockIdx.x;
    float most = -std::numeric_limits<float>::infinity();
    walk_row<N>(logits + r * width, valid, [&](std::int64_t, const float(&v)[N], int count) {
#pragma unroll
        for (int j = 0; j < N; ++j)
            if (j < count)
                most = Maximum{}(v[j], most);
    });
    most = over_group<kWarps>(most, Maximum{});
    if (threadIdx.x == 0)
        maximum[r] = most;
}

template <class T, int N>
__global__ void sums_kernel(const T* logits, std::int64_t n, std::int64_t width, std::int64_t valid,
                            const std::int32_t* targets, std::int64_t first_row, const float* maximum,
                            float* sums) {
    const std::int64_t r = blockIdx.x;
    const T* const row = logits + r * width;
    const float most = maximum[r];
    float sum = 0;
    walk_row<N>(row, valid, [&](std::int64_t, const float(&v)[N], int count) {
#pragma unroll
        for (int j = 0; j < N; ++j)
            if (j < count)
                sum += exponential_above<T>(v[j], most);
    });
    sum = over_group<kWarps>(sum, Sum{});
    if (threadIdx.x == 0) {
        const std::int64_t column = targets[r] - first_row;
        sums[r] = sum;
        sums[n + r] = column >= 0 && column < valid ? widen(row[column]) - most : 0;
    }
}

// One block: logarithms in double, added in an order fixed by n.
__global__ void loss_kernel(const float* sums, const float* mask, std::int64_t n, float* loss) {
    double total = 0;
    for (std::int64_t i = threadIdx.x; i < n; i += kThreads)
        total += (mask == nullptr ? 1.0 : static_cast<double>(mask[i])) *
                 static_cast<double>(logf(sums[i]) - sums[n + i]);
    total = over_group<kWarps>(total, Sum{});
    if (threadIdx.x == 0)
        *loss = static_cast<float>(static_cast<double>(*loss) + total);
}

template <class T, int N>
__global__ void gradient_kernel(T* logits, std::int64_t width, std::int64_t valid,
                                const std::int32_t* targets, std::int64_t first_row, const float* maximum,
                                const float* sums, const float* mask, float factor) {
    const std::int64_t r = blockIdx.x;
    T* const row = logits + r * width;
    const float most = maximum[r];
    const float of_row = mask == nullptr ? factor : factor * mask[r];
    const float scale = of_row / sums[r];
    const std::int64_t target = targets[r] - first_row;
    walk_row<N>(row, width, [&](std::int64_t c, float(&v)[N], int) {
#pragma unroll
        for (int j = 0; j < N; ++j) {
            v[j] = c + j < valid ? exponential_above<T>(v[j], most) * scale : 0;
            if (c + j == target && target < valid)
                v[j] -= of_row;
        }
        store(row + c, v);
    });
}

// All at once, where clusters of blocks do not serve: the first `held_columns` (a multiple of N) of the row
// wait in shared memory between its passes, so the logits cross the memory bus once in each direction; what
// does not fit there is read again, from the second cache while few rows are at work: one a multiprocessor,
// by a block of 1024 threads. The gradient is the one of gradient_kernel, bit for bit.
template <class T, int N, int kRowThreads>
__global__ void __launch_bounds__(kRowThreads, 1024 / kRowThreads)
    whole_kernel(T* logits, std::int64_t n, int width, int valid, int held_columns,
                 const std::int32_t* targets, const float* mask, float factor, float* maximum, float* sums) {
    constexpr int kRowWarps = kRowThreads / kWarp;
    extern __shared__ __align__(16) unsigned char shared[];
    T* const held = reinterpret_cast<T*>(shared);
    const std::int64_t r = blockIdx.x;
    T* const row = logits + r * width;
    const int first = static_cast<int>(threadIdx.x) * N;
    constexpr int kStep = kRowThreads * N;
    const int target = targets[r];
    const bool known = target >= 0 && target < valid;
    const float at_target = known ? widen(row[target]) : 0; // before it is overwritten
    // A running maximum and the sum relative to it: exponentials are computed while later packs arrive.
    constexpr float kLowest = -std::numeric_limits<float>::infinity();
    float most = kLowest, sum = 0;
#pragma unroll 4
    for (int c = first; c < width; c += kStep) {
        const auto pack = *reinterpret_cast<const Pack<T, N>*>(row + c);
        if (c < held_columns)
            *reinterpret_cast<Pack<T, N>*>(held + c) = pack;
        float v[N], highest = most;
#pragma unroll
        for (int j = 0; j < N; ++j) {
            v[j] = c + N <= valid || c + j < valid ? widen(pack.values[j]) : kLowest;
            highest = Maximum{}(v[j], highest);
        }
        if (highest != most) {
            sum *= most == kLowest ? 0 : exponential_above<T>(most, highest);
            most = highest;
        }
        if (most != kLowest)
#pragma unroll
            for (int j = 0; j < N; ++j)
                sum += exponential_above<T>(v[j], most);
    }
    const float own = most;
    most = over_group<kRowWarps>(most, Maximum{});
    sum = over_group<kRowWarps>(own == kLowest ? 0 : sum * exponential_above<T>(own, most), Sum{});
    const float of_row = mask == nullptr ? factor : factor * mask[r];
    const float scale = of_row / sum;
#pragma unroll 4
    for (int c = first; c < width; c += kStep) {
        float v[N];
        if (c < held_columns)
            load(held + c, v);
        else
            load(row + c, v);
#pragma unroll
        for (int j = 0; j < N; ++j)
            v[j] = c + N <= valid || c + j < valid ? exponential_above<T>(v[j], most) * scale : 0;
        store(row + c, v);
    }
    if (known &&
        target / N % kRowThreads == static_cast<int>(threadIdx.x)) // the thread that has just stored it
        row[target] = narrow<T>(exponential_above<T>(at_target, most) * scale - of_row);
    if (threadIdx.x == 0) {
        maximum[r] = most;
        sums[r] = sum;
        sums[n + r] = known ? at_target - most : 0;
    }
}

// compute(zero of the type, integral constant N) unless there is nothing to do.
template <class Compute>
void for_rows(const char* operation, const Tensor& logits, const Compute& compute) {
    if (rows(logits) == 0)
        return;
    dispatch(operation, logits.type(), [&](auto zero) {
        using T = decltype(zero);
        dispatch_packs<T>(fits_packs<T>(columns(logits), logits), [&](auto n) { compute(zero, n); });
    });
    check_launch(operation);
}

unsigned one_each(const Tensor& logits) {
    return static_cast<unsigned>(rows(logits));
}

} // namespace

void CudaOperations::do_cross_entropy_maximum(const Tensor& logits, std::int64_t valid_columns,
                                              Tensor maximum) {
    for_rows("cross_entropy_maximum", logits, [&](auto zero, auto n) {
        using T = decltype(zero);
        maximum_kernel<T, n><<<one_each(logits), kThreads, 0, stream_>>>(
            data<T>(logits), columns(logits), valid_columns, writable<float>(maximum));
    });
}

void CudaOperations::do_cross_entropy_sums(const Tensor& logits, std::int64_t valid_columns,
                                           const Tensor& targets, std::int64_t first_row,
                                           const Tensor& maximum, Tensor sums) {
    for_rows("cross_entropy_sums", logits, [&](auto zero, auto n) {
        using T = decltype(zero);
        sums_kernel<T, n><<<one_each(logits), kThreads, 0, stream_>>>(
            data<T>(logits), rows(logits), columns(logits), valid_columns, data<std::int32_t>(targets),
            first_row, data<float>(maximum), writable<float>(sums));
    });
}

void CudaOperations::do_cross_entropy_loss(const Tensor& sums, const Tensor& mask, Tensor loss) {
    if (sums.type() != DType::f32)
        refuse_type("cross_entropy_loss", sums.type());
    loss_kernel<<<1, kThreads, 0, stream_>>>(data<float>(sums), data<float>(mask), columns(sums),
                                             writable<float>(loss));
    check_launch("cross_entropy_loss");
}

void CudaOperations::do_cross_entropy_gradient(Tensor logits, std::int64_t valid_columns,
                                               const Tensor& targets, std::int64_t first_row,
                                               const Tensor& maximum, const Tensor& sums, const Tensor& mask,
                                               double factor) {
    for_rows("cross_entropy_gradient", logits, [&](auto zero, auto n) {
        using T = decltype(zero);
        gradient_kernel<T, n><<<one_each(logits), kThreads, 0, stream_>>>(
            writable<T>(logits), columns(logits), valid_columns, data<std::int32_t>(targets), first_row,
            data<float>(maximum), data<float>(sums), data<float>(mask), static_cast<float>(factor));
    });
}

namespace {

// Shared memory that a block may hold: 160 KiB of the data centre's GPUs from compute capability 8.0 on, 99
// KiB of the others.
std::int64_t most_shared_bytes() {
    static const std::int64_t most = [] {
        int device = 0, bytes = 0;
        check(cudaGetDevice(&device), "look-up of the GPU");
        check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
              "look-up of the GPU");
        // A few bytes are the kernel's own; whole packs of 16 bytes.
        return std::min<std::int64_t>(std::int64_t{160} << 10, (bytes - 2048) / 1024 * 1024);
    }();
    return most;
}

} // namespace

void CudaOperations::do_cross_entropy(Tensor logits, std::int64_t valid_columns, const Tensor& targets,
                                      const Tensor& mask, double factor, Tensor maximum, Tensor sums,
                                      Tensor loss) {
    const std::int64_t most = most_shared_bytes();
    const std::int64_t held_bytes = std::min(columns(logits) * size_bytes(logits.type()), most);
    const bool whole_row = held_bytes < most;
    for_rows("cross_entropy", logits, [&](auto zero, auto n) {
        using T = decltype(zero);
        static const std::int64_t memory =
            parted::memory_for(reinterpret_cast<const void*>(parted::kernel<T, n>));
        const parted::Cut cut = parted::cut_row(columns(logits), sizeof(T), memory);
        if (cut.blocks > 0 &&
            parted::launch<T, n>(cut, writable<T>(logits), rows(logits), columns(logits), valid_columns,
                                 data<std::int32_t>(targets), data<float>(mask), static_cast<float>(factor),
                                 writable<float>(maximum), writable<float>(sums), stream_))
            return;
        auto* const kernel = whole_row ? whole_kernel<T, n, 512> : whole_kernel<T, n, 1024>;
        check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(held_bytes)),
              "shared memory of cross_entropy");
        kernel<<<one_each(logits), whole_row ? 512 : 1024, static_cast<std::size_t>(held_bytes), stream_>>>(
            writable<T>(logits), rows(logits), static_cast<int>(columns(logits)),
            static_cast<int>(valid_columns), static_cast<int>(held_bytes / size_bytes(logits.type())),
            data<std::int32_t>(targets), data<float>(mask), static_cast<float>(factor),
            writable<float>(maximum), writable<float>(sums));
    });
    do_cross_entropy_loss(sums, mask, loss);
}

} // namespace trireme::backend
