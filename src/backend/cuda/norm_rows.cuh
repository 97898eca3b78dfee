// How the norms walk over rows: a row belongs to one warp, or to a block of a few if it is long. The first
// packs of a row are held in registers as they are stored (bf16 stays bf16), so all loads of a row are in
// flight at once and nothing is read twice; what does not fit is loaded again on each walk. Few warps a row
// with many packs each: rows then wait for each other's barriers less.
#pragma once

#include "backend/cuda/kernels.cuh"

namespace trireme::backend {

// kGroup: threads of a row. kHeld: packs that each holds.
template <class T, int N, int kGroup, int kHeld>
class HeldRow {
  public:
    // row: [width], width a multiple of N.
    __device__ HeldRow(const T* row, std::int64_t width)
        : row_(row), lane_(static_cast<int>(threadIdx.x) % kGroup), packs_(static_cast<int>(width / N)) {
#pragma unroll
        for (int k = 0; k < kHeld; ++k)
            if (lane_ + k * kGroup < packs_)
                held_[k] = reinterpret_cast<const Pack<T, N>*>(row)[lane_ + k * kGroup];
    }
    __device__ int packs() const {
        return packs_;
    }
    __device__ int lane() const {
        return lane_;
    }
    // Pack k of this thread as floats: k < kHeld and a constant after unrolling, or any later one.
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
    Pack<T, N> held_[kHeld];
    const T* row_;
    int lane_, packs_;
};

// visit(first element, values) of this thread's packs.
template <class T, int N, int kGroup, int kHeld, class Visit>
__device__ void walk(const HeldRow<T, N, kGroup, kHeld>& row, const Visit& visit) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k)
        if (row.lane() + k * kGroup < row.packs()) {
            float v[N];
            row.held(k, v);
            visit((row.lane() + k * kGroup) * N, v);
        }
    for (int pack = row.lane() + kHeld * kGroup; pack < row.packs(); pack += kGroup) {
        float v[N];
        row.later(pack, v);
        visit(pack * N, v);
    }
}
// visit(first element, values of a, values of b)
template <class T, int N, int kGroup, int kHeld, class Visit>
__device__ void walk(const HeldRow<T, N, kGroup, kHeld>& a, const HeldRow<T, N, kGroup, kHeld>& b,
                     const Visit& visit) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k)
        if (a.lane() + k * kGroup < a.packs()) {
            float v[N], w[N];
            a.held(k, v);
            b.held(k, w);
            visit((a.lane() + k * kGroup) * N, v, w);
        }
    for (int pack = a.lane() + kHeld * kGroup; pack < a.packs(); pack += kGroup) {
        float v[N], w[N];
        a.later(pack, v);
        b.later(pack, w);
        visit(pack * N, v, w);
    }
}
// The same with a third row, which may be written meanwhile at the places visited.
template <class T, int N, int kGroup, int kHeld, class Visit>
__device__ void walk(const HeldRow<T, N, kGroup, kHeld>& a, const HeldRow<T, N, kGroup, kHeld>& b,
                     const HeldRow<T, N, kGroup, kHeld>& c, const Visit& visit) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k)
        if (a.lane() + k * kGroup < a.packs()) {
            float v[N], w[N], u[N];
            a.held(k, v);
            b.held(k, w);
            c.held(k, u);
            visit((a.lane() + k * kGroup) * N, v, w, u);
        }
    for (int pack = a.lane() + kHeld * kGroup; pack < a.packs(); pack += kGroup) {
        float v[N], w[N], u[N];
        a.later(pack, v);
        b.later(pack, w);
        c.later(pack, u);
        visit(pack * N, v, w, u);
    }
}

// Rows of a block: one if several warps share it.
template <int kWarps>
inline constexpr int kRowsOfBlock = kWarps == 1 ? kThreads / kWarp : 1;
template <int kWarps>
inline constexpr int kNormThreads = kRowsOfBlock<kWarps>* kWarps* kWarp;

template <int kWarps>
__device__ std::int64_t row_of_group() {
    return static_cast<std::int64_t>(blockIdx.x) * kRowsOfBlock<kWarps> + threadIdx.x / (kWarp * kWarps);
}

// compute(warps of a row, packs that a thread holds)
template <int N, class Compute>
void dispatch_warps(std::int64_t width, const Compute& compute) {
    using std::integral_constant;
    if (width <= 4 * kWarp * N)
        compute(integral_constant<int, 1>{}, integral_constant<int, 4>{});
    else if (width <= 8 * kWarp * N)
        compute(integral_constant<int, 1>{}, integral_constant<int, 8>{});
    else if (width <= 16 * kWarp * N)
        compute(integral_constant<int, 2>{}, integral_constant<int, 8>{});
    else
        compute(integral_constant<int, 4>{}, integral_constant<int, 8>{});
}
template <int kWarps>
unsigned blocks_for_rows(std::int64_t rows) {
    return blocks_for(rows, kRowsOfBlock<kWarps>);
}

} // namespace trireme::backend
