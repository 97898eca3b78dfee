// Sums over the rows of a matrix, as gradients of biases and norm weights need them: columns are dealt out in
// blocks, each block adds its rows from first to last, so the order is fixed.
#pragma once

#include <array>

#include "backend/cpu/dispatch.hpp"
#include "backend/cpu/thread_pool.hpp"
#include "trireme/backend/ops.hpp"

namespace trireme::backend {

// to[s][c] = or += sum over rows r of term(s, r, c), for s below kSums.
template <int kSums, class T, class Term>
void sum_columns(ThreadPool& pool, std::int64_t row_count, std::int64_t width, std::array<T*, kSums> to,
                 GradWrite write, const Term& term) {
    constexpr std::int64_t kBlock = 64;
    pool.parallel_for(width, kBlock, [=](std::int64_t begin, std::int64_t end, int) {
        T sums[kSums][kBlock] = {};
        for (std::int64_t r = 0; r < row_count; ++r)
            for (int s = 0; s < kSums; ++s)
                for (std::int64_t c = begin; c < end; ++c)
                    sums[s][c - begin] += term(s, r, c);
        for (int s = 0; s < kSums; ++s)
            for (std::int64_t c = begin; c < end; ++c)
                to[static_cast<std::size_t>(s)][c] =
                    sums[s][c - begin] +
                    (write == GradWrite::accumulate ? to[static_cast<std::size_t>(s)][c] : T{0});
    });
}

} // namespace trireme::backend
