// Cross-entropy at once by clusters of blocks (compute capability 9.0 on): a row is cut into parts of
// neighbouring columns, each held whole in the shared memory of one block, so that every logit crosses the
// memory bus once in each direction. The smallest cluster is taken with which a multiprocessor holds parts of
// three rows: one may arrive while another is summed and a third written. Blocks exchange once: each warp
// gives its maximum and its sum to all blocks of the row, and every warp adds them in the same order. By
// count, two exponentials a logit fill half of their unit's time at the speed of an H200's memory, and eleven
// instructions less than half of the schedulers'.
#pragma once

#include <algorithm>
#include <bit>
#include <limits>

#include "backend/cuda/kernels.cuh"

namespace trireme::backend::parted {

constexpr int kMostThreads = 512, kThreadsHeld = 1536; // of a block; of a multiprocessor: 40 registers each
constexpr int kRowsWanted = 3, kMostBlocks = 8;
constexpr int kChunk = 4;       // packs of a thread that are waited for and added together
constexpr int kMostChunks = 8;  // of a part: 227 KiB by 512 threads of 4 packs
constexpr int kPartBytes = 128; // parts begin at a multiple: no line of the cache belongs to two blocks

// A row of `blocks` parts of `columns` columns (the last part may have fewer).
struct Cut {
    int blocks = 0; // 0: the row does not fit
    int threads = 0, columns = 0, shared_bytes = 0;
};

// Into a given number of blocks, on a multiprocessor with so much shared memory.
inline Cut cut_into(int blocks, std::int64_t width, std::int64_t element_bytes, std::int64_t memory_bytes,
                    std::int64_t& rows_held) {
    const std::int64_t unit = std::int64_t{kPartBytes} * blocks,
                       part = (width * element_bytes + unit - 1) / unit * kPartBytes,
                       shared = part + std::int64_t{blocks} * kMostThreads / kWarp * 8;
    rows_held = memory_bytes / (shared + 1024 + 128); // the system's 1 KiB, the chunks' barriers
    const auto rows = static_cast<int>(std::clamp<std::int64_t>(rows_held, kThreadsHeld / kMostThreads, 8));
    const int threads = kThreadsHeld / rows / kWarp * kWarp;
    if (rows_held == 0 || part > std::int64_t{kMostChunks} * kChunk * 16 * threads)
        return {};
    return {.blocks = blocks,
            .threads = threads,
            .columns = static_cast<int>(part / element_bytes),
            .shared_bytes = static_cast<int>(shared)};
}
// 151,936 columns of bf16 on an H200: four blocks of up to 38,016 columns, 74 KiB, 512 threads, three a
// multiprocessor. 50,304: two blocks of 25,152 columns, 49 KiB, 384 threads, four a multiprocessor.
inline Cut cut_row(std::int64_t width, std::int64_t element_bytes, std::int64_t memory_bytes) {
    for (int blocks = 1;; blocks *= 2) {
        std::int64_t rows_held = 0;
        const Cut cut = cut_into(blocks, width, element_bytes, memory_bytes, rows_held);
        if (rows_held >= kRowsWanted || blocks == kMostBlocks)
            return cut;
    }
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ inline unsigned address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

// Barriers in shared memory of one arrival, of the thread that says how many bytes are to come.
__device__ inline void begin(std::uint64_t* barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(barrier)) : "memory");
}
__device__ inline void expect(std::uint64_t* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(barrier)), "r"(bytes)
                 : "memory");
}
enum class Writer : std::uint8_t { this_block, cluster };
template <Writer kWriter>
__device__ inline void wait_for(const std::uint64_t* barrier) {
    unsigned done = 0;
    while (done == 0)
        if constexpr (kWriter == Writer::cluster)
            asm volatile("{\n"
                         ".reg .pred complete;\n"
                         "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 complete, [%1], 0;\n"
                         "selp.u32 %0, 1, 0, complete;\n"
                         "}"
                         : "=r"(done)
                         : "r"(address(barrier))
                         : "memory");
        else
            asm volatile("{\n"
                         ".reg .pred complete;\n"
                         "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], 0;\n"
                         "selp.u32 %0, 1, 0, complete;\n"
                         "}"
                         : "=r"(done)
                         : "r"(address(barrier))
                         : "memory");
}
// Whole packs of 16 bytes.
template <class T>
__device__ void start_copy(T* to, const T* from, int count, std::uint64_t* barrier) {
    const int bytes = count * static_cast<int>(sizeof(T));
    expect(barrier, bytes);
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            address(to)),
        "l"(from), "r"(bytes), "r"(address(barrier))
        : "memory");
}

__device__ inline unsigned rank_in_cluster() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
__device__ inline unsigned blocks_of_cluster() {
    unsigned blocks;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
    return blocks;
}

// All blocks of the cluster meet, in two steps: each has begun, with its barriers, so that its memory can be
// written.
__device__ inline void say_begun() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ inline void wait_until_all_have_begun() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Exponentials are relative to the highest logit, or to 0 where there is none.
constexpr float kLowest = -std::numeric_limits<float>::infinity();
__device__ inline float base_of(float highest) {
    return highest == kLowest ? 0 : highest;
}
// e^(highest - base), 1 exactly if they are equal; the products are those that exponential_above rounds.
template <class T>
__device__ inline float rescaling(float highest, float base) {
    if constexpr (std::is_same_v<T, bf16>) {
        constexpr float kLog2E = 1.44269504088896340736f;
        return exp2f(__fmul_rn(highest, kLog2E) - __fmul_rn(base, kLog2E));
    } else {
        return expf(highest - base);
    }
}

// Two at a time in 16 bits.
template <class T, int N, int kPacks>
__device__ inline float highest_of(const Pack<T, N> (&packs)[kPacks]) {
    if constexpr (sizeof(T) == 2 && N > 1) {
        using Pair = std::conditional_t<std::is_same_v<T, bf16>, __nv_bfloat162, __half2>;
        Pair most(packs[0].values[0], packs[0].values[1]);
#pragma unroll
        for (int i = 2; i < kPacks * N; i += 2)
            most = __hmax2_nan(most, Pair(packs[i / N].values[i % N], packs[i / N].values[i % N + 1]));
        return Maximum{}(widen(most.x), widen(most.y));
    } else {
        float most = widen(packs[0].values[0]);
#pragma unroll
        for (int i = 1; i < kPacks * N; ++i)
            most = Maximum{}(widen(packs[i / N].values[i % N]), most);
        return most;
    }
}
// One instruction for each of bf16, also for those in upper halves.
template <class T, int N>
__device__ inline void widen_pack(const Pack<T, N>& pack, float (&to)[N]) {
    if constexpr (std::is_same_v<T, bf16> && N > 1) {
        struct Words {
            unsigned of[N / 2];
        };
        const auto words = std::bit_cast<Words>(pack);
#pragma unroll
        for (int j = 0; j < N; ++j)
            to[j] = __uint_as_float(j % 2 == 0 ? words.of[j / 2] << 16 : words.of[j / 2] & 0xFFFF0000u);
    } else {
#pragma unroll
        for (int j = 0; j < N; ++j)
            to[j] = widen(pack.values[j]);
    }
}

// Some logits of a row: the highest, and the sum of e^(logit - base_of(highest)).
struct Some {
    float highest = kLowest, sum = 0;
};

template <class T, int N, int kPacks>
__device__ inline void add(const Pack<T, N> (&packs)[kPacks], Some& some) {
    const float highest = Maximum{}(highest_of(packs), some.highest), base = base_of(highest);
    some.sum *= rescaling<T>(some.highest, base);
    some.highest = highest;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
        float v[N];
        widen_pack(packs[p], v);
#pragma unroll
        for (int j = 0; j < N; ++j)
            some.sum += exponential_above<T>(v[j], base);
    }
}

// To the same place in the shared memory of a block of the cluster, whose barrier is told of 8 bytes.
__device__ inline void give(const Some& some, const Some* place, const std::uint64_t* barrier, int rank) {
    unsigned there, barrier_there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address(place)), "r"(rank));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(barrier_there) : "r"(address(barrier)), "r"(rank));
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(
            there),
        "f"(some.highest), "f"(some.sum), "r"(barrier_there)
        : "memory");
}

template <class T>
__device__ inline Some over_warp_of(Some some) {
    const float highest = over_warp(some.highest, Maximum{});
    return {highest, over_warp(some.sum * rescaling<T>(some.highest, base_of(highest)), Sum{})};
}
#endif

template <class T, int N>
__global__ void __launch_bounds__(kMostThreads, kThreadsHeld / kMostThreads)
    kernel(T* logits, std::int64_t n, int width, int valid, int part_columns, const std::int32_t* targets,
           const float* mask, float factor, float* maximum, float* sums) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    using Packed = Pack<T, N>;
    extern __shared__ __align__(128) unsigned char part[];
    __shared__ std::uint64_t arrived[kMostChunks], all_given;
    T* const held = reinterpret_cast<T*>(part);                          // [part_columns]
    Some* const of_warps = reinterpret_cast<Some*>(held + part_columns); // [blocks, warps]: the row's
    const int blocks = static_cast<int>(blocks_of_cluster()), rank = static_cast<int>(rank_in_cluster());
    const int warps = static_cast<int>(blockDim.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
    const std::int64_t r = blockIdx.x >> (__ffs(blocks) - 1);                          // a power of two
    const int first = rank * part_columns, columns = min(part_columns, width - first); // negative: none
    T* const row = logits + r * width + first;
    const int own = static_cast<int>(threadIdx.x) * N, step = static_cast<int>(blockDim.x) * N;
    const int chunk = kChunk * step;
    const bool alone = blocks == 1; // nothing is given to other blocks
    if (threadIdx.x == 0) {
        begin(&all_given);
        if constexpr (N > 1)
            for (int k = 0; k * chunk < columns; ++k)
                begin(arrived + k);
        // Copies and other blocks see the barriers begun.
        asm volatile("fence.mbarrier_init.release.cluster;\n"
                     "fence.proxy.async.shared::cta;" ::
                         : "memory");
        if (!alone)
            expect(&all_given, blocks * warps * static_cast<int>(sizeof(Some)));
        if constexpr (N > 1)
            for (int k = 0; k * chunk < columns; ++k)
                start_copy(held + k * chunk, row + k * chunk, min(chunk, columns - k * chunk), arrived + k);
    }
    __syncthreads();
    if (!alone)
        say_begun();
    const int target = targets[r];
    const float weight = mask == nullptr ? 1 : mask[r];
    if constexpr (N == 1) {
#pragma unroll 8
        for (int c = own; c < columns; c += step)
            held[c] = row[c];
    }

    // Columns of packs that hold no padding. That may be anything; its gradient is 0.
    const int whole = min(columns, max(0, valid - first) / N * N);
    Some some;
    for (int c = own, k = 0; k * chunk < columns; ++k) {
        if constexpr (N > 1)
            wait_for<Writer::this_block>(arrived + k);
        if ((k + 1) * chunk <= whole) {
            Packed packs[kChunk];
#pragma unroll
            for (int p = 0; p < kChunk; ++p)
                packs[p] = *reinterpret_cast<const Packed*>(held + c + p * step);
            add(packs, some);
            c += chunk;
        } else {
            for (int p = 0; p < kChunk; ++p, c += step)
                if (first + c < valid && c < columns) {
                    Packed packs[1] = {*reinterpret_cast<const Packed*>(held + c)};
#pragma unroll
                    for (int j = 0; j < N; ++j)
                        if (first + c + j >= valid)
                            packs[0].values[j] = narrow<T>(kLowest);
                    add(packs, some);
                }
        }
    }
    some = over_warp_of<T>(some);
    Some* const of_this_warp = of_warps + rank * warps + static_cast<int>(threadIdx.x) / kWarp;
    if (alone) {
        if (lane == 0)
            *of_this_warp = some;
        __syncthreads();
    } else {
        wait_until_all_have_begun();
        if (lane < blocks)
            give(some, of_this_warp, &all_given, lane);
        // A block may leave as soon as all has been given to it: nobody touches its memory any more.
        wait_for<Writer::cluster>(&all_given);
    }
    Some of_lane;
#pragma unroll 1
    for (int i = lane; i < blocks * warps; i += kWarp)
        of_lane.highest = Maximum{}(of_warps[i].highest, of_lane.highest);
#pragma unroll 1
    for (int i = lane; i < blocks * warps; i += kWarp)
        of_lane.sum += of_warps[i].sum * rescaling<T>(of_warps[i].highest, base_of(of_lane.highest));
    const Some all = over_warp_of<T>(of_lane);

    const float base = base_of(all.highest);
    const float of_row = factor * weight, scale = of_row / all.sum;
    const bool known = target >= 0 && target < valid;
    int c = own;
    const T* from = held + own;
    T* to = row + own;
    const auto store_next = [&](auto&& is_valid) {
        float v[N];
        widen_pack(*reinterpret_cast<const Packed*>(from), v);
#pragma unroll
        for (int j = 0; j < N; ++j)
            v[j] = is_valid(first + c + j) ? exponential_above<T>(v[j], base) * scale : 0;
        store(to, v);
        c += step, from += step, to += step;
    };
#pragma unroll 2
    while (c < whole)
        store_next([](int) { return true; });
    while (c < columns)
        store_next([&](int column) { return column < valid; });
    const int here = target - first;
    if (known && here >= 0 && here < columns &&
        here / N % static_cast<int>(blockDim.x) == static_cast<int>(threadIdx.x)) {
        const float at_target = widen(held[here]); // this thread has just stored its gradient
        row[here] = narrow<T>(exponential_above<T>(at_target, base) * scale - of_row);
        sums[n + r] = at_target - all.highest;
    }
    if (rank == 0 && threadIdx.x == 0) {
        maximum[r] = all.highest;
        sums[r] = all.sum;
        if (!known)
            sums[n + r] = 0;
    }
#endif
}

// Shared memory of a multiprocessor, or 0 where the GPU or what it takes from this build has no clusters.
inline std::int64_t memory_for(const void* function) {
    cudaFuncAttributes attributes{};
    int device = 0, bytes = 0;
    check(cudaFuncGetAttributes(&attributes, function), "look-up of cross_entropy");
    check(cudaGetDevice(&device), "look-up of the GPU");
    check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device),
          "look-up of the GPU");
    return attributes.ptxVersion < 90 ? 0 : bytes;
}

// False if the GPU has no place for such a cluster.
template <class T, int N>
bool launch(const Cut& cut, T* logits, std::int64_t n, std::int64_t width, std::int64_t valid,
            const std::int32_t* targets, const float* mask, float factor, float* maximum, float* sums,
            cudaStream_t stream) {
    auto* const function = kernel<T, N>;
    const char* const what = "shared memory of cross_entropy";
    check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, cut.shared_bytes),
          what);
    check(cudaFuncSetAttribute(function, cudaFuncAttributePreferredSharedMemoryCarveout,
                               cudaSharedmemCarveoutMaxShared),
          what);
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = static_cast<unsigned>(cut.blocks);
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(n * cut.blocks));
    config.blockDim = dim3(static_cast<unsigned>(cut.threads));
    config.dynamicSmemBytes = static_cast<std::size_t>(cut.shared_bytes);
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = 1;
    int fitting = 0;
    check(cudaOccupancyMaxActiveClusters(&fitting, function, &config), "clusters of cross_entropy");
    if (fitting == 0)
        return false;
    check(cudaLaunchKernelEx(&config, function, logits, n, static_cast<int>(width), static_cast<int>(valid),
                             cut.columns, targets, mask, factor, maximum, sums),
          "launch of cross_entropy");
    return true;
}

} // namespace trireme::backend::parted
