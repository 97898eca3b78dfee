// Bytes of scratch a worker that operations take, as functions of shapes: the operations reserve by them, and
// the memory plan counts by them (backend/dry). Sums of columns have theirs in column_sums.hpp.
#pragma once

#include <cstdint>

#include "trireme/tensor/dtype.hpp"

namespace trireme::backend {

// [m, k] x [k, n] of bf16 or fp16 into a result of that type or of fp32.
std::int64_t gemm_narrow_scratch_bytes(std::int64_t m, std::int64_t n, std::int64_t k, DType result);
std::int64_t attention_forward_scratch_bytes(DType type, std::int64_t head_dim);
std::int64_t attention_gradient_scratch_bytes(DType type, std::int64_t length, std::int64_t head_dim);
std::int64_t squares_scratch_bytes(std::int64_t elements);

} // namespace trireme::backend
