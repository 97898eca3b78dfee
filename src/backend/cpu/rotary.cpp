// Rotary position embedding (Su et al. 2021), in place: dimensions i and i + R/2 of a query or key head are
// the two coordinates of a point, turned by the angle of its position. Values are left alone.
#include "backend/cpu/operations.hpp"
#include "backend/cpu/stored.hpp"

namespace trireme::backend {
namespace {

// One head: [R] turned by the angles whose cosines and sines are given; sine is of the sign of the direction.
template <class S>
void rotate(S* __restrict low, S* __restrict high, const Wide<S>* __restrict cosine,
            const Wide<S>* __restrict sine, std::int64_t half, Wide<S> sign) {
    for (std::int64_t i = 0; i < half; ++i) {
        const Wide<S> x = widen(low[i]), y = widen(high[i]);
        low[i] = narrow<S>(x * cosine[i] - y * (sign * sine[i]));
        high[i] = narrow<S>(y * cosine[i] + x * (sign * sine[i]));
    }
}

} // namespace

void CpuOperations::do_rotary(Tensor qkv, std::int64_t heads, const Tensor& table, const Tensor& positions,
                              std::int64_t first_position, RotaryDirection direction) {
    dispatch_stored("rotary", qkv.type(), [&](auto zero) {
        using S = decltype(zero);
        using T = Wide<S>;
        const std::int64_t batch = qkv.shape()[1], packed = qkv.shape()[2], dim = qkv.shape()[3];
        const std::int64_t rotated = columns(table), half = rotated / 2, table_rows = table.shape()[0];
        const T* const angles = data<T>(table);
        const std::int32_t* const position = positions.defined() ? data<std::int32_t>(positions) : nullptr;
        const T sign = direction == RotaryDirection::forward ? T{1} : T{-1};
        S* const to = writable<S>(qkv);
        pool_.parallel_for(qkv.shape()[0] * batch, rows_per_chunk(heads * dim),
                           [=](std::int64_t begin, std::int64_t end, int) {
                               for (std::int64_t r = begin; r < end; ++r) {
                                   const std::int64_t row = position == nullptr ? first_position + r / batch
                                                                                : std::int64_t{position[r]};
                                   TRIREME_ASSERT(row >= 0 && row < table_rows, "position ", row,
                                                  " is no row of a rotary table of ", table_rows);
                                   const T* const cosine = angles + row * rotated;
                                   for (std::int64_t head = 0; head < heads; ++head) {
                                       S* const low = to + (r * packed + head) * dim;
                                       rotate(low, low + half, cosine, cosine + half, half, sign);
                                   }
                               }
                           });
    });
}

} // namespace trireme::backend
