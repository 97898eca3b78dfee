// Matrix products on the host through CBLAS, single-threaded; the pool runs fixed tiles of the result, cut by
// the shape alone and never along k, so that the sums do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <string>

#include "backend/cpu/thread_pool.hpp"

namespace trireme::backend {

enum class Transpose : std::uint8_t { no, yes };

// A matrix in memory, row-major: element (i, j) at data[i * stride + j]; transposed when used if `transpose`
// says so.
template <class T>
struct MatrixView {
    const T* data;
    std::int64_t stride;
    Transpose transpose = Transpose::no;
};

// c [m, n] = alpha * a [m, k] * b [k, n] + beta * c; beta 0 overwrites whatever was there. T is float or
// double. On the calling thread:
template <class T>
void gemm_serial(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, MatrixView<T> a, MatrixView<T> b,
                 T beta, T* c, std::int64_t c_stride);
// How the result of a product is cut for several threads: by its shape alone, at most 768 x 1536.
struct Tile {
    std::int64_t rows, columns;
};
Tile tile_of(std::int64_t m, std::int64_t n, std::int64_t k);

// On all threads of the pool:
template <class T>
void gemm(ThreadPool& pool, std::int64_t m, std::int64_t n, std::int64_t k, T alpha, MatrixView<T> a,
          MatrixView<T> b, T beta, T* c, std::int64_t c_stride);

// Keeps the library from starting threads of its own; called once by the backend.
void use_one_blas_thread();
// "OpenBLAS 0.3.21 (Zen)", or "BLAS" where the library does not say; with a note where its kernels use less
// than this processor has.
std::string blas_description();

} // namespace trireme::backend
