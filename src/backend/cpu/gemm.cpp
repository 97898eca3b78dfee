// CBLAS calls. OpenBLAS's own functions are weak symbols: another BLAS links as well.
#include "backend/cpu/gemm.hpp"

#include <algorithm>
#include <limits>
#include <sstream>

#include <cblas.h>

#include "trireme/base/error.hpp"
#include "trireme/base/sizes.hpp"

extern "C" {
[[gnu::weak]] extern void openblas_set_num_threads(int threads);
[[gnu::weak]] extern char* openblas_get_config(void);
[[gnu::weak]] extern char* openblas_get_corename(void);
}

namespace trireme::backend {
namespace {

// Tiles large enough that packing their operands is cheap, small enough that a few threads share the work.
constexpr std::int64_t kTileRows = 256, kTileColumns = 768;

CBLAS_TRANSPOSE cblas_transpose(Transpose transpose) {
    return transpose == Transpose::yes ? CblasTrans : CblasNoTrans;
}

void call_cblas(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, float alpha, const float* a,
                int lda, const float* b, int ldb, float beta, float* c, int ldc) {
    cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void call_cblas(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, double alpha, const double* a,
                int lda, const double* b, int ldb, double beta, double* c, int ldc) {
    cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

// Where row (or column) `index` of the matrix as used begins.
template <class T>
MatrixView<T> from_row(MatrixView<T> matrix, std::int64_t index) {
    matrix.data += matrix.transpose == Transpose::yes ? index : index * matrix.stride;
    return matrix;
}
template <class T>
MatrixView<T> from_column(MatrixView<T> matrix, std::int64_t index) {
    matrix.data += matrix.transpose == Transpose::yes ? index * matrix.stride : index;
    return matrix;
}

// Equal tiles of at most `largest`, a multiple of 16 so that kernels run full: 1536 by 768 -> 768; 800 ->
// 400.
std::int64_t tile_extent(std::int64_t extent, std::int64_t largest) {
    return round_up(divide_round_up(extent, divide_round_up(extent, largest)), 16);
}

} // namespace

template <class T>
void gemm_serial(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, MatrixView<T> a, MatrixView<T> b,
                 T beta, T* c, std::int64_t c_stride) {
    if (m == 0 || n == 0)
        return;
    constexpr std::int64_t kMost = std::numeric_limits<int>::max();
    TRIREME_ASSERT(std::max({m, n, k, a.stride, b.stride, c_stride}) <= kMost, "a matrix product of ", m,
                   " x ", n, " x ", k, " is too large for this BLAS");
    call_cblas(cblas_transpose(a.transpose), cblas_transpose(b.transpose), static_cast<int>(m),
               static_cast<int>(n), static_cast<int>(k), alpha, a.data, static_cast<int>(a.stride), b.data,
               static_cast<int>(b.stride), beta, c, static_cast<int>(c_stride));
}

template <class T>
void gemm(ThreadPool& pool, std::int64_t m, std::int64_t n, std::int64_t k, T alpha, MatrixView<T> a,
          MatrixView<T> b, T beta, T* c, std::int64_t c_stride) {
    if (m == 0 || n == 0)
        return;
    const std::int64_t tile_rows = tile_extent(m, kTileRows), tile_columns = tile_extent(n, kTileColumns);
    const std::int64_t across = divide_round_up(n, tile_columns);
    pool.parallel_for(divide_round_up(m, tile_rows) * across, 1, [&](std::int64_t tile, std::int64_t, int) {
        const std::int64_t row = tile / across * tile_rows, column = tile % across * tile_columns;
        gemm_serial(std::min(tile_rows, m - row), std::min(tile_columns, n - column), k, alpha,
                    from_row(a, row), from_column(b, column), beta, c + row * c_stride + column, c_stride);
    });
}

template void gemm_serial(std::int64_t, std::int64_t, std::int64_t, float, MatrixView<float>,
                          MatrixView<float>, float, float*, std::int64_t);
template void gemm_serial(std::int64_t, std::int64_t, std::int64_t, double, MatrixView<double>,
                          MatrixView<double>, double, double*, std::int64_t);
template void gemm(ThreadPool&, std::int64_t, std::int64_t, std::int64_t, float, MatrixView<float>,
                   MatrixView<float>, float, float*, std::int64_t);
template void gemm(ThreadPool&, std::int64_t, std::int64_t, std::int64_t, double, MatrixView<double>,
                   MatrixView<double>, double, double*, std::int64_t);

void use_one_blas_thread() {
    if (openblas_set_num_threads != nullptr)
        openblas_set_num_threads(1);
}

std::string blas_description() {
    if (openblas_get_config == nullptr || openblas_get_corename == nullptr)
        return "BLAS";
    std::istringstream config(openblas_get_config()); // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
    std::string library, version;
    config >> library >> version;
    return concat(library, " ", version, " (", openblas_get_corename(), ")");
}

} // namespace trireme::backend
