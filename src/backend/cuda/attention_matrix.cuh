// What the attention kernels on the matrix unit share: tiles of bf16 rows in shared memory, their fragments,
// and the product m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16"). Lane l of a warp has of a 16 x 8
// result the elements (l / 4, 2 (l % 4)), the next in that row, and the same two eight rows below.
//
// A tile's row is kDim elements, 16-byte chunks of which lie in an order that depends on the row, so that the
// eight rows that one instruction reads fall into different banks.
#pragma once

#include <cmath>

#include "backend/cuda/attention_tiles.cuh"

namespace trireme::backend::matrix {

inline constexpr int kWarps = kThreads / kWarp;
inline constexpr int kChunk = 8; // elements of 16 bytes
inline constexpr float kLog2E = 1.44269504088896340736f;

__device__ inline float power_of_two(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

__device__ inline std::uint32_t shared_address(const void* pointer) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// Where chunk c of row r of a tile lies.
template <int kDim>
__device__ inline bf16* chunk_at(bf16* tile, int row, int chunk) {
    return tile + row * kDim + (chunk ^ (row & 7)) * kChunk;
}

// Rows first ... first + kRows - 1 into a tile, zeros behind the end; returns at once, arrive_and_wait() and
// a barrier make them visible.
template <int kRows, int kDim>
__device__ inline void fetch_tile(const HeadRows<const bf16>& from, std::int64_t first, std::int64_t length,
                                  bf16* tile) {
    constexpr int kChunks = kDim / kChunk;
#pragma unroll
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kChunks; i += kThreads) {
        const int row = i / kChunks, chunk = i % kChunks;
        const bool exists = first + row < length;
        const bf16* const source = from.row(exists ? first + row : 0) + chunk * kChunk;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(
                         shared_address(chunk_at<kDim>(tile, row, chunk))),
                     "l"(source), "r"(exists ? 16 : 0));
    }
}
__device__ inline void commit() {
    asm volatile("cp.async.commit_group;\n" ::);
}
__device__ inline void wait_for_fetches() {
    asm volatile("cp.async.wait_all;\n" ::: "memory");
}

__device__ inline void load_four(std::uint32_t (&to)[4], const bf16* from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(from))
                 : "memory");
}
__device__ inline void load_four_transposed(std::uint32_t (&to)[4], const bf16* from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(from))
                 : "memory");
}

// The left operand: rows row ... row + 15, columns 16 step ...
template <int kDim>
__device__ inline void load_left(std::uint32_t (&to)[4], bf16* tile, int row, int step) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    load_four(to, chunk_at<kDim>(tile, row + lane % 16, 2 * step + lane / 16));
}
// The right operand of a product with the transposed tile: two blocks of eight rows from `row`, summed over
// columns 16 step ...; the first block's fragment is to[0], to[1].
template <int kDim>
__device__ inline void load_right_of_rows(std::uint32_t (&to)[4], bf16* tile, int row, int step) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    load_four(to, chunk_at<kDim>(tile, row + lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2));
}
// The right operand of a product with the tile itself: summed over rows row ... row + 15, two blocks of eight
// columns from 8 block.
template <int kDim>
__device__ inline void load_right_of_columns(std::uint32_t (&to)[4], bf16* tile, int row, int block) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    load_four_transposed(to, chunk_at<kDim>(tile, row + lane % 16, block + lane / 16));
}

// sum += left * right.
__device__ inline void multiply_add(float (&sum)[4], const std::uint32_t (&left)[4], std::uint32_t right0,
                                    std::uint32_t right1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9}, {%0, %1, %2, %3};\n"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
}

__device__ inline std::uint32_t pair(float low, float high) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&both);
}

// sums [16, 8 kBlocks] = rows row ... of `left` times rows right_row ... right_row + 8 kBlocks - 1 of
// `right`.
template <int kDim, int kBlocks>
__device__ inline void row_products(bf16* left, int row, bf16* right, float (&sums)[kBlocks][4]) {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e)
            sums[i][e] = 0;
#pragma unroll
    for (int step = 0; step < kDim / 16; ++step) {
        std::uint32_t a[4];
        load_left<kDim>(a, left, row, step);
#pragma unroll
        for (int i = 0; i < kBlocks; i += 2) {
            std::uint32_t b[4];
            load_right_of_rows<kDim>(b, right, 8 * i, step);
            multiply_add(sums[i], a, b[0], b[1]);
            multiply_add(sums[i + 1], a, b[2], b[3]);
        }
    }
}

// sums [16, kDim] += weights [16, 8 kBlocks], rounded to bf16, times the tile [8 kBlocks, kDim].
template <int kDim, int kBlocks>
__device__ inline void add_weighted_rows(const float (&weights)[kBlocks][4], bf16* tile,
                                         float (&sums)[kDim / 8][4]) {
#pragma unroll
    for (int step = 0; step < kBlocks / 2; ++step) {
        const std::uint32_t a[4] = {pair(weights[2 * step][0], weights[2 * step][1]),
                                    pair(weights[2 * step][2], weights[2 * step][3]),
                                    pair(weights[2 * step + 1][0], weights[2 * step + 1][1]),
                                    pair(weights[2 * step + 1][2], weights[2 * step + 1][3])};
#pragma unroll
        for (int block = 0; block < kDim / 8; block += 2) {
            std::uint32_t b[4];
            load_right_of_columns<kDim>(b, tile, 16 * step, block);
            multiply_add(sums[block], a, b[0], b[1]);
            multiply_add(sums[block + 1], a, b[2], b[3]);
        }
    }
}

// Writes rows row and row + 8 of a lane's part of sums [16, kDim], each times a factor of its own.
template <int kDim>
__device__ inline void store_rows(const HeadRows<bf16>& to, std::int64_t row, std::int64_t length,
                                  const float (&sums)[kDim / 8][4], float factor, float factor_below) {
    const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        if (row + 8 * half >= length)
            continue;
        bf16* const at = to.row(row + 8 * half) + column;
        const float scale = half == 0 ? factor : factor_below;
#pragma unroll
        for (int block = 0; block < kDim / 8; ++block)
            *reinterpret_cast<std::uint32_t*>(at + 8 * block) =
                pair(sums[block][2 * half] * scale, sums[block][2 * half + 1] * scale);
    }
}

// Which of a lane's elements of [16 queries, 8 kBlocks keys] are kept: bit 4 i + (2 (lane % 4) + e) % 4 of
// rows[h] for element e of block i in row lane / 4 + 8 h. One draw gives four keys, which two lanes share:
// the even one draws for the upper row, the odd one for the lower, and they swap.
template <int kBlocks>
struct KeptOfRows {
    std::uint32_t rows[2];
    __device__ KeptOfRows(const AttentionSizes& s, std::int64_t b, std::int64_t head,
                          std::int64_t first_query, std::int64_t first_key) {
        static_assert(kBlocks <= 8);
        const int lane = static_cast<int>(threadIdx.x) % kWarp, odd = lane % 2;
        const auto query = static_cast<std::uint32_t>(first_query + lane / 4 + 8 * odd);
        const auto key_block = static_cast<std::uint32_t>(first_key / 4 + lane % 4 / 2);
        std::uint32_t mine = 0;
#pragma unroll
        for (int i = 0; i < kBlocks; ++i)
            mine |=
                s.dropout.kept(b, query, key_block + 2 * i, s.first_head + static_cast<std::uint32_t>(head))
                << (4 * i);
        const std::uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, mine, 1);
        rows[0] = odd == 0 ? mine : other;
        rows[1] = odd == 0 ? other : mine;
    }
    __device__ bool operator()(int block, int element) const {
        const int lane = static_cast<int>(threadIdx.x) % kWarp;
        return rows[element / 2] >> (4 * block + lane % 2 * 2 + element % 2) & 1;
    }
};

// The same for [16 keys, 8 kBlocks queries]. The four keys of a draw lie in the four lanes that differ in
// lane / 4 % 4; they need the same four draws (two queries, two blocks of keys), make one each and pass it
// round.
template <int kBlocks>
struct KeptOfColumns {
    std::uint32_t draws[4]; // [2 (key block) + query]
    __device__ KeptOfColumns(const AttentionSizes& s, std::int64_t b, std::int64_t head,
                             std::int64_t first_key, std::int64_t first_query) {
        static_assert(kBlocks <= 8);
        const int lane = static_cast<int>(threadIdx.x) % kWarp, which = lane / 4 % 4;
        const auto query = static_cast<std::uint32_t>(first_query + lane % 4 * 2 + which % 2);
        const auto key_block = static_cast<std::uint32_t>(first_key / 4 + lane / 16 + which / 2 * 2);
        std::uint32_t mine = 0;
#pragma unroll
        for (int i = 0; i < kBlocks; ++i)
            mine |=
                s.dropout.kept(b, query + 8 * i, key_block, s.first_head + static_cast<std::uint32_t>(head))
                << (4 * i);
#pragma unroll
        for (int from = 0; from < 4; ++from)
            draws[from] = __shfl_sync(0xFFFFFFFFu, mine, (lane & ~12) | from << 2);
    }
    __device__ bool operator()(int block, int element) const {
        const int lane = static_cast<int>(threadIdx.x) % kWarp;
        return draws[element] >> (4 * block + lane / 4 % 4) & 1;
    }
};

// The first key that query `t` sees.
__device__ inline std::int64_t first_seen(const AttentionSizes& s, std::int64_t b, std::int64_t t) {
    return s.documents == nullptr || t >= s.length ? 0 : s.documents[t * s.batch + b];
}

} // namespace trireme::backend::matrix
