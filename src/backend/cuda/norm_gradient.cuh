// Both gradients of a norm in one pass over memory. A row belongs to a group of warps, each thread to the
// same few packs of columns in all rows of its group: it keeps their sums over rows, the weight gradients, in
// registers. Its rows wait in registers, too, so grad_y and x are read once. A multiprocessor holds one block
// of twelve warps, whose groups walk on without waiting for each other; where rows are many there are a few
// blocks for each multiprocessor, since some may be taken by communication. The sums of groups are added in
// order into one a block, and those of blocks by column_totals_kernel: the same bits in each run on one kind
// of GPU, and others on a GPU of another size.
#pragma once

#include <algorithm>

#include "backend/cuda/check.hpp"
#include "backend/cuda/column_sums.cuh"
#include "backend/cuda/kernels.cuh"
#include "backend/cuda/scratch_needs.hpp"

namespace trireme::backend::norm_gradient {

constexpr int kWarps = cuda_scratch::kNormGradientWarps; // of a block
constexpr int kPacks = cuda_scratch::kNormGradientPacks; // of a row that a thread holds at most
constexpr int kThreads = kWarps * kWarp;

enum class Kind : std::uint8_t { layer_norm, rms_norm };
constexpr int sums_of(Kind kind) {
    return kind == Kind::layer_norm ? 2 : 1; // weight, bias
}

template <class T>
struct Rows {
    const T *grad_y, *x, *weight; // weight [width]
    const float *mean, *rstd;     // [rows]; mean of layer norm only
    std::int64_t rows;
    int width;
    T* grad_x;
};

// The same bits as far as the compiler knows nothing of them: it widens them again instead of keeping floats,
// for which there are not enough registers.
template <class Packed>
__device__ inline void forget(Packed& pack) {
    static_assert(sizeof(Packed) == 16);
    auto* const words = reinterpret_cast<unsigned*>(&pack);
    asm volatile("" : "+r"(words[0]), "+r"(words[1]), "+r"(words[2]), "+r"(words[3]));
}

// Where the warps of a group meet: rows use the two by turns.
enum class Place : std::uint8_t { first, second };

// The sums of a and of b over the kOfRow warps of a group, for all its threads.
template <int kOfRow>
__device__ inline float2 over_row_group(float a, float b, int group, Place place) {
    a = over_warp(a, Sum{});
    b = over_warp(b, Sum{});
    if constexpr (kOfRow > 1) {
        // Two places, used by turns: who is late reads one while the others fill the other, and nobody is two
        // rows ahead.
        __shared__ float2 of_warp[2][kWarps];
        const int warp = static_cast<int>(threadIdx.x) / kWarp;
        if (threadIdx.x % kWarp == 0)
            of_warp[static_cast<int>(place)][warp] = {a, b};
        asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "r"(kOfRow * kWarp) : "memory");
        a = b = 0;
#pragma unroll
        for (int w = 0; w < kOfRow; ++w) {
            const float2 one = of_warp[static_cast<int>(place)][group * kOfRow + w];
            a += one.x;
            b += one.y;
        }
    }
    return {a, b};
}

// With g = grad_y * weight and xhat = (x - mean) * rstd: grad_x = or += rstd * (g - mean of g - xhat * mean
// of (g * xhat)), the mean of g for layer norm only. partial [blocks, sums, width]: sums over a block's rows
// of grad_y * xhat and, for layer norm, of grad_y.
template <class T, int N, int kOfRow, Kind kKind, GradWrite kWrite>
__global__ void __launch_bounds__(kThreads, 1) kernel(Rows<T> of, float* partial) {
    constexpr bool kCentred = kKind == Kind::layer_norm;
    constexpr int kSums = sums_of(kKind), kGroup = kOfRow * kWarp, kGroups = kWarps / kOfRow;
    using Packed = Pack<T, N>;
    const int lane = static_cast<int>(threadIdx.x) % kGroup, group = static_cast<int>(threadIdx.x) / kGroup;
    const int packs = of.width / N;
    const auto widened = [](const Packed& pack, float(&to)[N]) {
#pragma unroll
        for (int j = 0; j < N; ++j)
            to[j] = widen(pack.values[j]);
    };
    // visit(k) for the packs of this thread
    const auto each_pack = [&](const auto& visit) {
#pragma unroll
        for (int k = 0; k < kPacks; ++k)
            if (lane + k * kGroup < packs)
                visit(k);
    };
    const auto pack_of = [&](const T* row, int k) -> Packed {
        return reinterpret_cast<const Packed*>(row)[lane + k * kGroup];
    };

    Packed weight[kPacks]; // pack k of a thread, here and below, is pack lane + k * kGroup of a row
    each_pack([&](int k) { weight[k] = pack_of(of.weight, k); });
    float sums[kSums][kPacks][N] = {};
    auto place = Place::first;
    for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kGroups + group; row < of.rows;
         row += static_cast<std::int64_t>(gridDim.x) * kGroups,
                      place = place == Place::first ? Place::second : Place::first) {
        const std::int64_t at = row * of.width;
        Packed grad[kPacks], value[kPacks], before[kPacks];
        each_pack([&](int k) {
            grad[k] = pack_of(of.grad_y + at, k);
            value[k] = pack_of(of.x + at, k);
            if constexpr (kWrite == GradWrite::accumulate)
                before[k] = pack_of(of.grad_x + at, k);
        });
        const float m = kCentred ? of.mean[row] : 0, s = of.rstd[row];
        float sum_g = 0, sum_product = 0;
        each_pack([&](int k) {
            float g[N], v[N], w[N];
            widened(grad[k], g);
            widened(value[k], v);
            widened(weight[k], w);
#pragma unroll
            for (int j = 0; j < N; ++j) {
                const float weighted = g[j] * w[j], standard = kCentred ? (v[j] - m) * s : v[j] * s;
                if constexpr (kCentred)
                    sum_g += weighted;
                sum_product += weighted * standard;
                sums[0][k][j] += g[j] * standard;
                if constexpr (kCentred)
                    sums[1][k][j] += g[j];
            }
        });
        const float2 both = over_row_group<kOfRow>(sum_g, sum_product, group, place);
        const float mean_g = both.x / static_cast<float>(of.width),
                    mean_product = both.y / static_cast<float>(of.width);
        each_pack([&](int k) {
            forget(grad[k]);
            forget(value[k]);
            forget(weight[k]);
            float g[N], v[N], w[N], out[N];
            widened(grad[k], g);
            widened(value[k], v);
            widened(weight[k], w);
#pragma unroll
            for (int j = 0; j < N; ++j)
                out[j] = kCentred ? s * (g[j] * w[j] - mean_g - (v[j] - m) * s * mean_product)
                                  : s * (g[j] * w[j] - v[j] * s * mean_product);
            if constexpr (kWrite == GradWrite::accumulate) {
                float old[N];
                widened(before[k], old);
#pragma unroll
                for (int j = 0; j < N; ++j)
                    out[j] += old[j];
            }
            store(of.grad_x + at + (lane + k * kGroup) * N, out);
        });
    }

    const int all = kSums * of.width; // sums of a block
    float* const of_block = partial + static_cast<std::int64_t>(blockIdx.x) * all;
    extern __shared__ float of_groups[]; // [groups, sums, width] if there are several
    float* const own = kGroups == 1 ? of_block : of_groups + group * all;
#pragma unroll
    for (int i = 0; i < kSums; ++i)
        each_pack([&](int k) {
#pragma unroll
            for (int j = 0; j < N; ++j)
                own[i * of.width + (lane + k * kGroup) * N + j] = sums[i][k][j];
        });
    if constexpr (kGroups > 1) {
        __syncthreads();
        for (int place = static_cast<int>(threadIdx.x); place < all; place += kThreads) {
            float sum = 0;
#pragma unroll
            for (int g = 0; g < kGroups; ++g)
                sum += of_groups[g * all + place];
            of_block[place] = sum;
        }
    }
}

// compute(warps of a row): the fewest that hold one.
template <int N, class Compute>
void dispatch_row(std::int64_t width, const Compute& compute) {
    using std::integral_constant;
    const auto holds = [&](int warps) { return width <= std::int64_t{warps} * kWarp * kPacks * N; };
    if (holds(1))
        compute(integral_constant<int, 1>{});
    else if (holds(2))
        compute(integral_constant<int, 2>{});
    else if (holds(4))
        compute(integral_constant<int, 4>{});
    else
        compute(integral_constant<int, 12>{});
}

inline int multiprocessors() {
    static const int count = [] {
        int device = 0, found = 0;
        check(cudaGetDevice(&device), "look-up of the GPU");
        check(cudaDeviceGetAttribute(&found, cudaDevAttrMultiProcessorCount, device), "look-up of the GPU");
        return found;
    }();
    return count;
}

template <class T>
bool serves(const Tensor& grad_y, const Tensor& x, const Tensor& weight, const Tensor& grad_x) {
    return rows(x) > 0 && cuda_scratch::norm_gradients_at_once(columns(x), sizeof(T)) &&
           fits_packs<T>(columns(x), grad_y, x, weight, grad_x);
}

// Where that serves.
template <Kind kKind, class T>
void run(cudaStream_t stream, DeviceScratch& scratch, const Rows<T>& of, GradWrite input_write,
         const ColumnTargets<sums_of(kKind)>& targets, GradWrite weight_write) {
    constexpr int N = 16 / static_cast<int>(sizeof(T)), kSums = sums_of(kKind);
    dispatch_row<N>(of.width, [&](auto warps) {
        constexpr int kOfRow = decltype(warps)::value, kGroups = kWarps / kOfRow;
        const auto blocks = static_cast<int>(
            std::min<std::int64_t>(cuda_scratch::norm_gradient_blocks(of.rows, kSums, multiprocessors()),
                                   (of.rows + kGroups - 1) / kGroups));
        float* const partial = scratch.of<float>(static_cast<std::int64_t>(blocks) * kSums * of.width);
        auto* const chosen = input_write == GradWrite::accumulate
                                 ? kernel<T, N, kOfRow, kKind, GradWrite::accumulate>
                                 : kernel<T, N, kOfRow, kKind, GradWrite::overwrite>;
        const int shared = kGroups == 1 ? 0 : kGroups * kSums * of.width * static_cast<int>(sizeof(float));
        check(cudaFuncSetAttribute(chosen, cudaFuncAttributeMaxDynamicSharedMemorySize, shared),
              "shared memory of the gradients of a norm");
        chosen<<<static_cast<unsigned>(blocks), kThreads, shared, stream>>>(of, partial);
        check_launch("gradients of a norm");
        column_totals_kernel<kSums>
            <<<dim3(blocks_for(of.width, kWarp), kSums), dim3(kWarp, kRowLanes), 0, stream>>>(
                partial, blocks, of.width, targets, weight_write);
        check_launch("totals of columns");
    });
}

} // namespace trireme::backend::norm_gradient
