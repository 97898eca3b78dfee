// Rows of the token and position tables, and their gradients. The gradients are cut by channel, so each
// element of a table gets its tokens in one fixed order without atomics.
#include "backend/cpu/operations.hpp"
#include "backend/cpu/stored.hpp"

namespace trireme::backend {
namespace {
constexpr std::int64_t kChannelBlock = 128;
}

void CpuOperations::do_embedding_forward(const Tensor& tokens, const Tensor& table, std::int64_t first_row,
                                         Tensor out) {
    dispatch_stored("embedding_forward", table.type(), [&](auto zero) {
        using S = decltype(zero);
        const std::int32_t* const token = data<std::int32_t>(tokens);
        const S* const rows_of_table = data<S>(table);
        S* const to = writable<S>(out);
        const std::int64_t held = table.shape()[0], width = table.shape()[1];
        pool_.parallel_for(tokens.elements(), rows_per_chunk(width),
                           [=](std::int64_t begin, std::int64_t end, int) {
                               for (std::int64_t i = begin; i < end; ++i) {
                                   const std::int64_t row = token[i] - first_row;
                                   if (row >= 0 && row < held)
                                       std::copy_n(rows_of_table + row * width, width, to + i * width);
                                   else
                                       std::fill_n(to + i * width, width, S{});
                               }
                           });
    });
}

void CpuOperations::do_embedding_weight_gradient(const Tensor& tokens, const Tensor& grad_out,
                                                 std::int64_t first_row, Tensor grad_table) {
    dispatch_stored("embedding_weight_gradient", grad_out.type(), [&](auto zero) {
        using S = decltype(zero);
        using T = Wide<S>;
        const std::int32_t* const token = data<std::int32_t>(tokens);
        const S* const from = data<S>(grad_out);
        T* const to = writable<T>(grad_table);
        const std::int64_t count = tokens.elements(), held = grad_table.shape()[0],
                           width = grad_table.shape()[1];
        pool_.parallel_for(width, kChannelBlock, [=](std::int64_t begin, std::int64_t end, int) {
            for (std::int64_t i = 0; i < count; ++i) {
                const std::int64_t row = token[i] - first_row;
                if (row < 0 || row >= held)
                    continue;
                for (std::int64_t c = begin; c < end; ++c)
                    to[row * width + c] += widen(from[i * width + c]);
            }
        });
    });
}

// x [T, B, C]
void CpuOperations::do_position_forward(const Tensor& table, std::int64_t first_position, Tensor x) {
    dispatch_stored("position_forward", table.type(), [&](auto zero) {
        using S = decltype(zero);
        const std::int64_t batch = x.shape()[1], width = x.shape()[2];
        const S* const from = data<S>(table) + first_position * width;
        S* const to = writable<S>(x);
        pool_.parallel_for(
            x.shape()[0] * batch, rows_per_chunk(width), [=](std::int64_t begin, std::int64_t end, int) {
                for (std::int64_t i = begin; i < end; ++i)
                    for (std::int64_t c = 0; c < width; ++c)
                        to[i * width + c] =
                            narrow<S>(widen(to[i * width + c]) + widen(from[i / batch * width + c]));
            });
    });
}

void CpuOperations::do_position_weight_gradient(const Tensor& grad_out, std::int64_t first_position,
                                                Tensor grad_table) {
    dispatch_stored("position_weight_gradient", grad_out.type(), [&](auto zero) {
        using S = decltype(zero);
        using T = Wide<S>;
        const std::int64_t batch = grad_out.shape()[1], width = grad_out.shape()[2];
        const S* const from = data<S>(grad_out);
        T* const to = writable<T>(grad_table) + first_position * width;
        pool_.parallel_for(grad_out.shape()[0], rows_per_chunk(batch * width),
                           [=](std::int64_t begin, std::int64_t end, int) {
                               for (std::int64_t t = begin; t < end; ++t)
                                   for (std::int64_t b = 0; b < batch; ++b)
                                       for (std::int64_t c = 0; c < width; ++c)
                                           to[t * width + c] += widen(from[(t * batch + b) * width + c]);
                           });
    });
}

} // namespace trireme::backend
