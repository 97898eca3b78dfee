// Sums over the rows of a matrix, as gradients of biases and norm weights need them. Rows are cut into at
// most 16 parts by their number alone; a part is read once, from first row to last, and the parts are added
// in order.
#pragma once

#include <array>

#include "backend/cpu/dispatch.hpp"
#include "backend/cpu/scratch.hpp"
#include "backend/cpu/simd.hpp"
#include "backend/cpu/thread_pool.hpp"
#include "trireme/backend/ops.hpp"
#include "trireme/base/sizes.hpp"

namespace trireme::backend {

// How rows are cut, and the scratch that the parts' sums take.
struct ColumnParts {
    static constexpr std::int64_t kLeastRows = 128, kMostParts = 16;
    std::int64_t part_rows, parts, stride;

    ColumnParts(std::int64_t rows, std::int64_t width)
        : part_rows(std::max(kLeastRows, divide_round_up(rows, kMostParts))),
          parts(divide_round_up(rows, part_rows)),
          stride(round_up(width, 64)) // no cache line has two writers
    {}
    std::int64_t elements(int sums) const { return parts * sums * stride; }
};

// to[s][c] = or += sum over rows r of term(r, c, count)[s], s below kSums: vectors of terms of columns c, c +
// 1, ...
template <int kSums, class T, class Term>
void sum_columns(ThreadPool& pool, Scratch& scratch, std::int64_t row_count, std::int64_t width,
                 std::array<T*, kSums> to, GradWrite write, const Term& term) {
    const ColumnParts cut(row_count, width);
    const std::int64_t part_rows = cut.part_rows, stride = cut.stride;
    scratch.reserve(cut.elements(kSums) * static_cast<std::int64_t>(sizeof(T)));
    T* const partial = scratch.of<T>(0, 0, cut.elements(kSums)).data(); // [parts, kSums, stride]
    pool.parallel_for(row_count, part_rows, [=](std::int64_t begin, std::int64_t end, int) {
        T* const sums = partial + begin / part_rows * kSums * stride;
        std::fill_n(sums, kSums * stride, T{0});
        for (std::int64_t r = begin; r < end; ++r)
            simd::for_vectors<T>(width, [&](std::int64_t c, auto count) {
                const std::array<simd::Vec<T>, kSums> terms = term(r, c, count);
                for (int s = 0; s < kSums; ++s) {
                    T* const sum = sums + s * stride + c;
                    simd::store_some<T>(sum, simd::load_some(sum, count) + terms[static_cast<std::size_t>(s)],
                                        count);
                }
            });
    });
    for (int s = 0; s < kSums; ++s) {
        T* const out = to[static_cast<std::size_t>(s)];
        if (write == GradWrite::overwrite)
            std::fill_n(out, width, T{0});
        for (std::int64_t part = 0; part < cut.parts; ++part) {
            const T* const sums = partial + (part * kSums + s) * stride;
            for (std::int64_t c = 0; c < width; ++c)
                out[c] += sums[c];
        }
    }
}

} // namespace trireme::backend
