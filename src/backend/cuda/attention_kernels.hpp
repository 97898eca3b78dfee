// The own attention kernels: every head size to 256, bf16 and fp32, dropout. All sums in fp32, in a fixed
// order.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/scratch.hpp"
#include "trireme/backend/ops.hpp"

namespace trireme::backend {

inline constexpr std::int64_t kMostHeadDim = 256;

void own_attention_forward(cudaStream_t stream, const Tensor& qkv, const Attention& attention,
                           const Tensor& out, const Tensor& logsumexp);
void own_attention_input_gradient(cudaStream_t stream, const Tensor& grad_out, const Tensor& qkv,
                                  const Tensor& out, const Tensor& logsumexp, const Attention& attention,
                                  const Tensor& grad_qkv, DeviceScratch& scratch);

} // namespace trireme::backend
