// CBLAS calls. OpenBLAS's own functions are weak symbols: another BLAS links as well.
#include "backend/cpu/gemm.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <string_view>

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

// Each tile packs its operands anew, so few large tiles are fastest (256 x 768 loses 5 % to these); an even
// number of them, so that two threads, or two groups of threads, end together. Products below kLeastWork are
// not cut for that.
constexpr std::int64_t kTileRows = 768, kTileColumns = 1536;
constexpr std::int64_t kLeastWork = std::int64_t{1} << 22; // m * n * k: some 50 microseconds

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

// OpenBLAS picks its kernels by OPENBLAS_CORETYPE or by the processor; these names have AVX-512.
bool slower_than_this_cpu([[maybe_unused]] std::string_view core) {
#if defined(__x86_64__)
    constexpr std::array<std::string_view, 3> kWithAvx512{"SkylakeX", "Cooperlake", "SapphireRapids"};
    return __builtin_cpu_supports("avx512f") != 0 &&
           std::find(kWithAvx512.begin(), kWithAvx512.end(), core) == kWithAvx512.end();
#else
    return false;
#endif
}
std::string slow_core_note() {
    return concat("; note: kernels without this processor's AVX-512, up to twice as slow: ",
                  std::getenv("OPENBLAS_CORETYPE") != nullptr ? "unset OPENBLAS_CORETYPE"
                                                              : "try OPENBLAS_CORETYPE=SkylakeX");
}

} // namespace

// Multiples of 16, so that kernels run full. 2048 x 1152 -> 512 x 1152; 1152 x 384 -> 576 x 384; 384 x 1536
// -> 384 x 768.
Tile tile_of(std::int64_t m, std::int64_t n, std::int64_t k) {
    std::int64_t down = divide_round_up(m, kTileRows), across = divide_round_up(n, kTileColumns);
    if (down > 1)
        down = round_up(down, 2);
    if (down % 2 == 1 && across % 2 == 1 && m * n * k >= kLeastWork)
        ++(across > 1 || n > m ? across : down);
    return {round_up(divide_round_up(m, down), 16), round_up(divide_round_up(n, across), 16)};
}

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
    const auto [tile_rows, tile_columns] = tile_of(m, n, k);
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
    const std::string_view core = openblas_get_corename();
    return concat(library, " ", version, " (", core, ")", slower_than_this_cpu(core) ? slow_core_note() : "");
}

} // namespace trireme::backend
