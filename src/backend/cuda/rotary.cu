// Rotary position embedding (Su et al. 2021), in place: dimensions i and i + R/2 of a query or key head are
// the two coordinates of a point, turned by the angle of its position. A thread turns N points. Positions
// outside the table leave NaN behind: the device cannot throw.
#include "backend/cuda/kernels.cuh"
#include "backend/cuda/operations.hpp"

namespace trireme::backend {
namespace {

struct RotarySizes {
    std::int64_t batch, packed, heads, dim, table_rows, first_position;
    int half;
    float sign; // of the sines
};

template <class T, int N>
__global__ void rotary_kernel(T* qkv, const float* table, const std::int32_t* positions, RotarySizes s,
                              std::int64_t count) {
    const std::int64_t index = global_thread();
    if (index >= count)
        return;
    const int per_head = s.half / N;
    const std::int64_t head = index / per_head % s.heads, r = index / per_head / s.heads;
    const int i = static_cast<int>(index % per_head) * N;
    const std::int64_t position = positions == nullptr ? s.first_position + r / s.batch : positions[r];
    T* const low = qkv + (r * s.packed + head) * s.dim + i;
    float x[N], y[N], cosine[N], sine[N];
    load(low, x);
    load(low + s.half, y);
    const bool known = position >= 0 && position < s.table_rows;
    const float* const angles = table + (known ? position : 0) * 2 * s.half + i;
    load(angles, cosine);
    load(angles + s.half, sine);
#pragma unroll
    for (int j = 0; j < N; ++j) {
        const float turned = known ? x[j] * cosine[j] - y[j] * (s.sign * sine[j]) : NAN;
        y[j] = known ? y[j] * cosine[j] + x[j] * (s.sign * sine[j]) : NAN;
        x[j] = turned;
    }
    store(low, x);
    store(low + s.half, y);
}

} // namespace

void CudaOperations::do_rotary(Tensor qkv, std::int64_t heads, const Tensor& table, const Tensor& positions,
                               std::int64_t first_position, RotaryDirection direction) {
    const std::int64_t tokens = qkv.shape()[0] * qkv.shape()[1], half = columns(table) / 2;
    if (tokens * heads * half == 0)
        return;
    dispatch("rotary", qkv.type(), [&](auto zero) {
        using T = decltype(zero);
        const RotarySizes sizes{qkv.shape()[1],
                                qkv.shape()[2],
                                heads,
                                qkv.shape()[3],
                                table.shape()[0],
                                first_position,
                                static_cast<int>(half),
                                direction == RotaryDirection::forward ? 1.0F : -1.0F};
        const bool packs = fits_packs<T>(half, qkv, table) && fits_packs<T>(qkv.shape()[3], qkv);
        dispatch_packs<T>(packs, [&](auto n) {
            const std::int64_t count = tokens * heads * (half / n);
            rotary_kernel<T, n><<<blocks_for(count, kThreads), kThreads, 0, stream_>>>(
                writable<T>(qkv), data<float>(table), data<std::int32_t>(positions), sizes, count);
            check_launch("rotary");
        });
    });
}

} // namespace trireme::backend
