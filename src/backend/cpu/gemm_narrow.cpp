// Products of bf16 and fp16 matrices through the fp32 products of gemm.hpp.
#include "backend/cpu/gemm_narrow.hpp"

#include <algorithm>

#include "backend/cpu/scratch_needs.hpp"
#include "backend/cpu/stored.hpp"
#include "trireme/base/sizes.hpp"

namespace trireme::backend {
namespace {

// Terms of a sum that are widened at once: operands of a tile then take some 9 MiB a thread.
constexpr std::int64_t kDepth = 1024;

// Rows [row, row + row_count) and columns [column, column + column_count) of the matrix as used, widened into
// `buffer` and laid there as in memory: a transposed matrix stays transposed.
template <class S>
MatrixView<float> widened(MatrixView<S> matrix, std::int64_t row, std::int64_t row_count, std::int64_t column,
                          std::int64_t column_count, float* buffer) {
    if (matrix.transpose == Transpose::yes) {
        std::swap(row, column);
        std::swap(row_count, column_count);
    }
    for (std::int64_t r = 0; r < row_count; ++r)
        widen_values(matrix.data + (row + r) * matrix.stride + column, column_count,
                     buffer + r * column_count);
    return {buffer, std::max<std::int64_t>(1, column_count), matrix.transpose};
}

// c [m, n] += or = (beta 0) a tile's product, k piece by piece.
template <class S>
void multiply_tile(std::int64_t row, std::int64_t m, std::int64_t column, std::int64_t n, std::int64_t k,
                   MatrixView<S> a, MatrixView<S> b, float beta, float* buffer, float* c,
                   std::int64_t c_stride) {
    const std::int64_t depth = std::min(k, kDepth);
    for (std::int64_t k0 = 0; k0 == 0 || k0 < k; k0 += kDepth) {
        const std::int64_t here = std::min(kDepth, k - k0);
        const MatrixView<float> left = widened(a, row, m, k0, here, buffer);
        const MatrixView<float> right = widened(b, k0, here, column, n, buffer + m * depth);
        gemm_serial<float>(m, n, here, 1, left, right, k0 == 0 ? beta : 1, c, c_stride);
    }
}

std::int64_t scratch_elements(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t result_tiles) {
    const auto [rows, columns] = tile_of(m, n, k);
    return (rows + columns) * std::min(k, kDepth) + result_tiles * rows * columns;
}

// visit(row, m, column, n, buffer) for each tile of the result; the buffer of its worker holds a tile's two
// operands and result_tiles times its result.
template <class Visit>
void for_each_tile(ThreadPool& pool, Scratch& scratch, std::int64_t m, std::int64_t n, std::int64_t k,
                   std::int64_t result_tiles, const Visit& visit) {
    const auto [tile_rows, tile_columns] = tile_of(m, n, k);
    const std::int64_t across = divide_round_up(n, tile_columns);
    const std::int64_t elements = scratch_elements(m, n, k, result_tiles);
    scratch.reserve(elements * static_cast<std::int64_t>(sizeof(float)));
    pool.parallel_for(
        divide_round_up(m, tile_rows) * across, 1,
        [&, rows = tile_rows, columns = tile_columns](std::int64_t tile, std::int64_t, int worker) {
            const std::int64_t row = tile / across * rows, column = tile % across * columns;
            visit(row, std::min(rows, m - row), column, std::min(columns, n - column),
                  scratch.of<float>(worker, 0, elements).data());
        });
}

} // namespace

std::int64_t gemm_narrow_scratch_bytes(std::int64_t m, std::int64_t n, std::int64_t k, DType result) {
    return scratch_elements(m, n, k, is_narrow(result) ? 1 : 0) * static_cast<std::int64_t>(sizeof(float));
}

template <class S>
void gemm_narrow(ThreadPool& pool, Scratch& scratch, std::int64_t m, std::int64_t n, std::int64_t k,
                 MatrixView<S> a, MatrixView<S> b, const S* bias, S* c, std::int64_t c_stride) {
    if (m == 0 || n == 0)
        return;
    for_each_tile(
        pool, scratch, m, n, k, 1,
        [&](std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns, float* buffer) {
            float* const result = buffer;
            if (bias != nullptr) {
                widen_values(bias + column, columns, result);
                for (std::int64_t r = 1; r < rows; ++r)
                    std::copy_n(result, columns, result + r * columns);
            }
            multiply_tile(row, rows, column, columns, k, a, b, bias != nullptr ? 1.0F : 0.0F,
                          buffer + rows * columns, result, columns);
            for (std::int64_t r = 0; r < rows; ++r)
                narrow_values(result + r * columns, columns, c + (row + r) * c_stride + column);
        });
}

template <class S>
void gemm_narrow(ThreadPool& pool, Scratch& scratch, std::int64_t m, std::int64_t n, std::int64_t k,
                 MatrixView<S> a, MatrixView<S> b, float beta, float* c, std::int64_t c_stride) {
    if (m == 0 || n == 0)
        return;
    for_each_tile(
        pool, scratch, m, n, k, 0,
        [&](std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns, float* buffer) {
            multiply_tile(row, rows, column, columns, k, a, b, beta, buffer, c + row * c_stride + column,
                          c_stride);
        });
}

template void gemm_narrow(ThreadPool&, Scratch&, std::int64_t, std::int64_t, std::int64_t,
                          MatrixView<BFloat16>, MatrixView<BFloat16>, const BFloat16*, BFloat16*,
                          std::int64_t);
template void gemm_narrow(ThreadPool&, Scratch&, std::int64_t, std::int64_t, std::int64_t,
                          MatrixView<Float16>, MatrixView<Float16>, const Float16*, Float16*, std::int64_t);
template void gemm_narrow(ThreadPool&, Scratch&, std::int64_t, std::int64_t, std::int64_t,
                          MatrixView<BFloat16>, MatrixView<BFloat16>, float, float*, std::int64_t);
template void gemm_narrow(ThreadPool&, Scratch&, std::int64_t, std::int64_t, std::int64_t,
                          MatrixView<Float16>, MatrixView<Float16>, float, float*, std::int64_t);

} // namespace trireme::backend
