// Matrix products of matrices stored in two bytes (S: bf16 or fp16) on the host: operands are widened tile by
// tile into fp32 scratch of bounded size, multiplied and summed in fp32, and the result is rounded once.
// Tiles and the pieces of k are cut by the shape alone.
#pragma once

#include "backend/cpu/gemm.hpp"
#include "backend/cpu/scratch.hpp"
#include "trireme/tensor/dtype.hpp"

namespace trireme::backend {

// c [m, n] = a [m, k] * b [k, n] + bias [n] (nullptr: none), rounded to S.
template <class S>
void gemm_narrow(ThreadPool& pool, Scratch& scratch, std::int64_t m, std::int64_t n, std::int64_t k,
                 MatrixView<S> a, MatrixView<S> b, const S* bias, S* c, std::int64_t c_stride);
// c [m, n] = a [m, k] * b [k, n] + beta * c in fp32; beta 0 overwrites whatever was there.
template <class S>
void gemm_narrow(ThreadPool& pool, Scratch& scratch, std::int64_t m, std::int64_t n, std::int64_t k,
                 MatrixView<S> a, MatrixView<S> b, float beta, float* c, std::int64_t c_stride);

} // namespace trireme::backend
