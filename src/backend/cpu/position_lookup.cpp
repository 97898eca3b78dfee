// Learned positions where each token brings its own (positions that start again at each document).
#include "backend/cpu/operations.hpp"
#include "backend/cpu/stored.hpp"

namespace trireme::backend {
namespace {

constexpr std::int64_t kChannelBlock = 128;

void check_positions(const Tensor& positions, std::int64_t table_rows) {
    for (const std::int32_t position : positions.values<std::int32_t>())
        TRIREME_ASSERT(position >= 0 && position < table_rows, "position ", position,
                       " is no row of a position table of ", table_rows);
}

} // namespace

void CpuOperations::do_position_lookup_forward(const Tensor& table, const Tensor& positions, Tensor x) {
    check_positions(positions, table.shape()[0]);
    dispatch_stored("position_lookup_forward", table.type(), [&](auto zero) {
        using S = decltype(zero);
        const std::int64_t width = columns(x);
        const std::int32_t* const position = data<std::int32_t>(positions);
        const S* const from = data<S>(table);
        S* const to = writable<S>(x);
        pool_.parallel_for(rows(x), rows_per_chunk(width), [=](std::int64_t begin, std::int64_t end, int) {
            for (std::int64_t r = begin; r < end; ++r) {
                const S* const row = from + position[r] * width;
                for (std::int64_t c = 0; c < width; ++c)
                    to[r * width + c] = narrow<S>(widen(to[r * width + c]) + widen(row[c]));
            }
        });
    });
}

// Cut by channel: each element of the table gets its tokens in one fixed order without atomics.
void CpuOperations::do_position_lookup_weight_gradient(const Tensor& grad_out, const Tensor& positions,
                                                       Tensor grad_table) {
    check_positions(positions, grad_table.shape()[0]);
    dispatch_stored("position_lookup_weight_gradient", grad_out.type(), [&](auto zero) {
        using S = decltype(zero);
        using T = Wide<S>;
        const std::int64_t width = columns(grad_out), count = positions.elements();
        const std::int32_t* const position = data<std::int32_t>(positions);
        const S* const from = data<S>(grad_out);
        T* const to = writable<T>(grad_table);
        pool_.parallel_for(width, kChannelBlock, [=](std::int64_t begin, std::int64_t end, int) {
            for (std::int64_t r = 0; r < count; ++r)
                for (std::int64_t c = begin; c < end; ++c)
                    to[position[r] * width + c] += widen(from[r * width + c]);
        });
    });
}

} // namespace trireme::backend
