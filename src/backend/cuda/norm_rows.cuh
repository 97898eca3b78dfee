// How the norms walk over rows: a row belongs to one warp, or to a whole block if it is long. The first packs
// of a row are held in registers as they are stored (bf16 stays bf16), so all loads of a row are in flight at
// once and nothing is read twice; what does not fit is loaded again on each walk.
#pragma once

#include "backend/cuda/kernels.cuh"

namespace trireme::backend {

inline constexpr int kHeldPacks = 4; // of a thread

template <class T, int N, int kGroup>
class HeldRow {
  public:
    // row: [width], width a multiple of N.
    __device__ HeldRow(const T* row, std::int64_t width)
        : row_(row), lane_(static_cast<int>(threadIdx.x) % kGroup), packs_(static_cast<int>(width / N)) {
#pragma unroll
        for (int k = 0; k < kHeldPacks; ++k)
            if (lane_ + k * kGroup < packs_)
                held_[k] = reinterpret_cast<const Pack<T, N>*>(row)[lane_ + k * kGroup];
    }
    __device__ int packs() const {
        return packs_;
    }
    __device__ int lane() const {
        return lane_;
    }
    // Pack k of this thread as floats: k < kHeldPacks and a constant after unrolling, or any later one.
    __device__ void held(int k, float (&to)[N]) const {
        widen_pack(held_[k], to);
    }
    __device__ void later(int pack, float (&to)[N]) const {
        load(row_ + static_cast<std::int64_t>(pack) * N, to);
    }

  private:
    static __device__ void widen_pack(const Pack<T, N>& pack, float (&to)[N]) {
#pragma unroll
        for (int j = 0; j < N; ++j)
            to[j] = widen(pack.values[j]);
    }
    Pack<T, N> held_[kHeldPacks];
    const T* row_;
    int lane_, packs_;
};

// visit(first element, values) of this thread's packs.
template <class T, int N, int kGroup, class Visit>
__device__ void walk(const HeldRow<T, N, kGroup>& row, const Visit& visit) {
#pragma unroll
    for (int k = 0; k < kHeldPacks; ++k)
        if (row.lane() + k * kGroup < row.packs()) {
            float v[N];
            row.held(k, v);
            visit((row.lane() + k * kGroup) * N, v);
        }
    for (int pack = row.lane() + kHeldPacks * kGroup; pack < row.packs(); pack += kGroup) {
        float v[N];
        row.later(pack, v);
        visit(pack * N, v);
    }
}
// visit(first element, values of a, values of b)
template <class T, int N, int kGroup, class Visit>
__device__ void walk(const HeldRow<T, N, kGroup>& a, const HeldRow<T, N, kGroup>& b, const Visit& visit) {
#pragma unroll
    for (int k = 0; k < kHeldPacks; ++k)
        if (a.lane() + k * kGroup < a.packs()) {
            float v[N], w[N];
            a.held(k, v);
            b.held(k, w);
            visit((a.lane() + k * kGroup) * N, v, w);
        }
    for (int pack = a.lane() + kHeldPacks * kGroup; pack < a.packs(); pack += kGroup) {
        float v[N], w[N];
        a.later(pack, v);
        b.later(pack, w);
        visit(pack * N, v, w);
    }
}
// The same with a third row, which may be written meanwhile at the places visited.
template <class T, int N, int kGroup, class Visit>
__device__ void walk(const HeldRow<T, N, kGroup>& a, const HeldRow<T, N, kGroup>& b,
                     const HeldRow<T, N, kGroup>& c, const Visit& visit) {
#pragma unroll
    for (int k = 0; k < kHeldPacks; ++k)
        if (a.lane() + k * kGroup < a.packs()) {
            float v[N], w[N], u[N];
            a.held(k, v);
            b.held(k, w);
            c.held(k, u);
            visit((a.lane() + k * kGroup) * N, v, w, u);
        }
    for (int pack = a.lane() + kHeldPacks * kGroup; pack < a.packs(); pack += kGroup) {
        float v[N], w[N], u[N];
        a.later(pack, v);
        b.later(pack, w);
        c.later(pack, u);
        visit(pack * N, v, w, u);
    }
}

template <int kWarps>
__device__ std::int64_t row_of_group() {
    return static_cast<std::int64_t>(blockIdx.x) * (kThreads / kWarp / kWarps) +
           threadIdx.x / (kWarp * kWarps);
}

// compute(warps of a row): one for rows that a warp holds, else the whole block.
template <int N, class Compute>
void dispatch_warps(std::int64_t width, const Compute& compute) {
    if (width <= kHeldPacks * kWarp * N)
        compute(std::integral_constant<int, 1>{});
    else
        compute(std::integral_constant<int, kThreads / kWarp>{});
}
inline unsigned blocks_for_rows(std::int64_t rows, int warps) {
    return blocks_for(rows, kThreads / kWarp / warps);
}

} // namespace trireme::backend
