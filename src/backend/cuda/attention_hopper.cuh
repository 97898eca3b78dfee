// What the attention kernels for Hopper share: products of a warpgroup (128 threads) by wgmma, and the tiles
// that it reads (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").
//
// A tile of `rows` rows of kDim elements lies as slabs of 64 columns: row r of a slab has 128 bytes at 128 r,
// their 16-byte chunk c at place c ^ (r % 8). That is wgmma's 128-byte swizzle, for a tile read along its
// rows as well as for one read across them. Slabs begin at multiples of 1024 bytes.
//
// Results [64, N]: warp w of the warpgroup has rows 16 w ... 16 w + 15, and of each 16 x 8 block lane l the
// elements (l / 4, 2 (l % 4)), the next in that row, and the same two eight rows below.
#pragma once

#include <cmath>

#include "backend/cuda/attention_tiles.cuh"
#include "backend/cuda/scratch_needs.hpp"

namespace trireme::backend::hopper {

inline constexpr float kLog2E = 1.44269504088896340736f;

// Lengths are padded to a multiple of this in the tables that kernels look up.
inline constexpr int kPadded = static_cast<int>(cuda_scratch::kPaddedLength);

// --- tables
// Which attention weights dropout keeps: bit 4 (k % 32 / 8) + k % 8 / 2 + 16 (k % 2) of word
// [(b * heads + head) * padded / 32 + k / 32] * padded + query. Neighbouring keys, which a lane holds side by
// side, stand sixteen bits apart.
struct KeptTable {
    const std::uint32_t* words;
    int padded;
    __device__ const std::uint32_t* row(std::int64_t batch_and_head, int key) const {
        return words + (batch_and_head * (padded / 32) + key / 32) * padded;
    }
};

// --- memory
// ---------------------------------------------------------------------------------------------------------
__device__ inline std::uint32_t shared_address(const void* pointer) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}
__device__ inline void copy_16(std::uint32_t to, const void* from, bool exists) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(exists ? 16 : 0)
                 : "memory");
}
// Rows first ... first + kRows - 1 into a tile, zeros behind the end; returns at once.
template <int kRows, int kDim>
__device__ inline void fetch_tile(const HeadRows<const bf16>& from, int first, int length, bf16* tile) {
    constexpr int kChunks = kDim / 8, kStep = kThreads / kChunks;
    static_assert(kRows % kStep == 0 && kStep % 8 == 0);
    const int chunk = static_cast<int>(threadIdx.x) % kChunks, r0 = static_cast<int>(threadIdx.x) / kChunks;
    const std::uint32_t to =
        shared_address(tile) +
        static_cast<std::uint32_t>(chunk / 8 * kRows * 128 + r0 * 128 + ((chunk % 8) ^ (r0 % 8)) * 16);
#pragma unroll
    for (int i = 0; i < kRows / kStep; ++i) {
        const int row = first + r0 + i * kStep;
        const bool exists = row < length;
        copy_16(to + static_cast<std::uint32_t>(i * kStep * 128),
                from.row(exists ? row : length - 1) + chunk * 8, exists);
    }
}
__device__ inline void commit_fetches() {
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}
// What this thread fetched is here, for wgmma too once all threads have met at a barrier.
__device__ inline void wait_for_fetches() {
    asm volatile("cp.async.wait_all;\n" ::: "memory");
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
#endif
}

// --- products
// -------------------------------------------------------------------------------------------------------
// kSlabBytes: from one slab of a tile to the next.
__device__ inline std::uint64_t matrix_at(std::uint32_t address, int slab_bytes) {
    return static_cast<std::uint64_t>((address & 0x3FFFF) >> 4) |
           static_cast<std::uint64_t>(slab_bytes >> 4) << 16 | std::uint64_t{1024 >> 4} << 32 |
           std::uint64_t{1} << 62;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

#define TRIREME_ROW(d, i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define TRIREME_ROWS8(d, i)                                                                                  \
    TRIREME_ROW(d, i), TRIREME_ROW(d, i + 1), TRIREME_ROW(d, i + 2), TRIREME_ROW(d, i + 3),                  \
        TRIREME_ROW(d, i + 4), TRIREME_ROW(d, i + 5), TRIREME_ROW(d, i + 6), TRIREME_ROW(d, i + 7)
#define TRIREME_D32                                                                                          \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "  \
    "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define TRIREME_D64                                                                                          \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "  \
    "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, "   \
    "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "   \
    "%62, %63}"

// d [64, N] = a b^T over 16 columns, both read along their rows; kept is 0 for the first 16, which overwrite.
__device__ inline void multiply_rows(float (&d)[8][4], std::uint64_t a, std::uint64_t b, int kept) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " TRIREME_D32
                 ", %32, %33, p, 1, 1, 0, 0;\n}\n"
                 : TRIREME_ROWS8(d, 0)
                 : "l"(a), "l"(b), "r"(kept));
}
__device__ inline void multiply_rows(float (&d)[16][4], std::uint64_t a, std::uint64_t b, int kept) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " TRIREME_D64
                 ", %64, %65, p, 1, 1, 0, 0;\n}\n"
                 : TRIREME_ROWS8(d, 0), TRIREME_ROWS8(d, 8)
                 : "l"(a), "l"(b), "r"(kept));
}
// d [64, N] += a b over 16 rows of b, which is read across them; a comes from registers.
__device__ inline void add_product(float (&d)[8][4], const std::uint32_t (&a)[4], std::uint64_t b) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " TRIREME_D32
                 ", {%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}\n"
                 : TRIREME_ROWS8(d, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void add_product(float (&d)[16][4], const std::uint32_t (&a)[4], std::uint64_t b) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " TRIREME_D64
                 ", {%64, %65, %66, %67}, %68, p, 1, 1, 1;\n}\n"
                 : TRIREME_ROWS8(d, 0), TRIREME_ROWS8(d, 8)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
// Before products whose registers were written by other instructions.
__device__ inline void begin_products() {
    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}
__device__ inline void commit_products() {
    asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}
// Until at most kCount of the committed groups are not finished.
template <int kCount>
__device__ inline void wait_for_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kCount) : "memory");
}

#undef TRIREME_ROW
#undef TRIREME_ROWS8
#undef TRIREME_D32
#undef TRIREME_D64

#else // another architecture of the same build: never launched there

template <int kBlocks>
__device__ inline void multiply_rows(float (&)[kBlocks][4], std::uint64_t, std::uint64_t, int) {
    __trap();
}
template <int kBlocks>
__device__ inline void add_product(float (&)[kBlocks][4], const std::uint32_t (&)[4], std::uint64_t) {
    __trap();
}
__device__ inline void begin_products() {}
__device__ inline void commit_products() {}
template <int kCount>
__device__ inline void wait_for_products() {}

#endif

// The compiler may not move reads or writes of these registers over this place.
template <int kBlocks>
__device__ inline void hold(float (&d)[kBlocks][4]) {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e)
            asm volatile("" : "+f"(d[i][e])::"memory");
}

// d [64, 8 kBlocks] = rows row ... row + 63 of `left` [kLeftRows][kDim] times the 8 kBlocks rows of `right`,
// transposed. Enqueued, as add_weighted_rows().
template <int kLeftRows, int kDim, int kBlocks>
__device__ inline void row_products(const bf16* left, int row, const bf16* right, float (&d)[kBlocks][4]) {
    constexpr int kLeftSlab = kLeftRows * 128, kRightSlab = 8 * kBlocks * 128;
    const std::uint32_t a = shared_address(left) + static_cast<std::uint32_t>(row * 128),
                        b = shared_address(right);
#pragma unroll
    for (int step = 0; step < kDim / 16; ++step) {
        const auto along = [&](int slab) {
            return static_cast<std::uint32_t>(step / 4 * slab + step % 4 * 32);
        };
        multiply_rows(d, matrix_at(a + along(kLeftSlab), kLeftSlab),
                      matrix_at(b + along(kRightSlab), kRightSlab), step);
    }
}

// d [64, kDim] += weights [64, 16 kSteps] (as pack_rows() makes them) times a tile [16 kSteps][kDim].
template <int kDim, int kSteps>
__device__ inline void add_weighted_rows(const std::uint32_t (&weights)[kSteps][4], const bf16* tile,
                                         float (&d)[kDim / 8][4]) {
    const std::uint32_t b = shared_address(tile);
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
        add_product(d, weights[step],
                    matrix_at(b + static_cast<std::uint32_t>(step * 16 * 128), 16 * kSteps * 128));
}

__device__ inline std::uint32_t pair(float low, float high) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&both);
}
// Results as the left operand of the next product, rounded to bf16.
template <int kBlocks>
__device__ inline void pack_rows(const float (&from)[kBlocks][4], std::uint32_t (&to)[kBlocks / 2][4]) {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
#pragma unroll
        for (int h = 0; h < 2; ++h)
            to[i / 2][i % 2 * 2 + h] = pair(from[i][2 * h], from[i][2 * h + 1]);
}

__device__ inline float power_of_two(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

// 0xFFFF in the half words of x whose upper bit is set.
__device__ inline std::uint32_t spread_signs(std::uint32_t x) {
    std::uint32_t mask;
    asm("prmt.b32 %0, %1, 0, 0xBB99;" : "=r"(mask) : "r"(x));
    return mask;
}

// Writes rows row and row + 8 of a lane's part of d [64, kDim], each times a factor of its own.
template <int kDim>
__device__ inline void store_rows(const HeadRows<bf16>& to, int row, int length,
                                  const float (&d)[kDim / 8][4], float factor, float factor_below) {
    const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        if (row + 8 * h >= length)
            continue;
        bf16* const at = to.row(row + 8 * h) + column;
        const float scale = h == 0 ? factor : factor_below;
#pragma unroll
        for (int block = 0; block < kDim / 8; ++block)
            *reinterpret_cast<std::uint32_t*>(at + 8 * block) =
                pair(d[block][2 * h] * scale, d[block][2 * h + 1] * scale);
    }
}

// --- blocks
// ---------------------------------------------------------------------------------------------------------
// Which tile of which head a block has. Heads come by 32, so that their keys and values stay in the cache,
// and of these all first tiles, then all second ones: with the longest tiles first no block is late.
struct Place {
    int tile;
    std::int64_t head, b;
    __device__ Place(int tiles, std::int64_t heads, std::int64_t batch) {
        constexpr int kTogether = 32;
        const int all = static_cast<int>(heads * batch), block = static_cast<int>(blockIdx.x),
                  first = block / (kTogether * tiles) * kTogether, rest = block - first * tiles,
                  together = min(kTogether, all - first), chosen = first + rest % together;
        tile = rest / together;
        head = chosen % heads;
        b = chosen / heads;
    }
};

// The first key that query `t` sees.
__device__ inline int first_seen(const AttentionSizes& s, std::int64_t b, int t) {
    return s.documents == nullptr || t >= s.length ? 0 : s.documents[t * s.batch + b];
}

} // namespace trireme::backend::hopper

namespace trireme::backend {

// Draws into `words` (cuda_scratch::kept_words of them).
hopper::KeptTable draw_kept(cudaStream_t stream, const AttentionSizes& sizes, std::uint32_t* words);
// facts [B, H, padded length]: (logsumexp / ln 2, sum over d of grad_out * out) of each query.
void query_facts(cudaStream_t stream, const Tensor& grad_out, const Tensor& out, const Tensor& logsumexp,
                 const AttentionSizes& sizes, float2* facts);

} // namespace trireme::backend
