// The own attention kernels: every head size to 256, bf16 and fp32, dropout. All sums in fp32, in a fixed
// order.
#pragma once

#include <cuda_runtime_api.h>
#include <initializer_list>

#include "backend/cuda/scratch.hpp"
#include "trireme/backend/ops.hpp"

namespace trireme::backend {

inline constexpr std::int64_t kMostHeadDim = 256;

void own_attention_forward(cudaStream_t stream, const Tensor& qkv, const Attention& attention,
                           const Tensor& out, const Tensor& logsumexp);
void own_attention_input_gradient(cudaStream_t stream, const Tensor& grad_out, const Tensor& qkv,
                                  const Tensor& out, const Tensor& logsumexp, const Attention& attention,
                                  const Tensor& grad_qkv, DeviceScratch& scratch);

// The same on the matrix unit, for bf16 and heads of 64 or 128: what has dropout or documents, and all where
// cuDNN is not at hand.
bool matrix_attention_supports(const Tensor& qkv, const Attention& attention,
                               std::initializer_list<Tensor> others);
void matrix_attention_forward(cudaStream_t stream, const Tensor& qkv, const Attention& attention,
                              const Tensor& out, const Tensor& logsumexp);
void matrix_attention_input_gradient(cudaStream_t stream, const Tensor& grad_out, const Tensor& qkv,
                                     const Tensor& out, const Tensor& logsumexp, const Attention& attention,
                                     const Tensor& grad_qkv, DeviceScratch& scratch);

// The same by Hopper's own instructions; hopper_attention_supports() is false on other GPUs, and in a build
// that leaves them out.
bool hopper_attention_supports(const Tensor& qkv, const Attention& attention,
                               std::initializer_list<Tensor> others);
void hopper_attention_forward(cudaStream_t stream, const Tensor& qkv, const Attention& attention,
                              const Tensor& out, const Tensor& logsumexp, DeviceScratch& scratch);
void hopper_attention_input_gradient(cudaStream_t stream, const Tensor& grad_out, const Tensor& qkv,
                                     const Tensor& out, const Tensor& logsumexp, const Attention& attention,
                                     const Tensor& grad_qkv, DeviceScratch& scratch);

// delta [B, H, T] in `scratch`: the sum over d of grad_out * out.
float* attention_delta(cudaStream_t stream, const Tensor& grad_out, const Tensor& out, const Tensor& qkv,
                       const Attention& attention, DeviceScratch& scratch);

} // namespace trireme::backend
