// Fused attention by cuDNN for bf16 without dropout or documents: forward, and the backward pass,
// deterministic unless sums may run in any order. Graphs are built at the first call of each shape and
// remembered. Without cudnn-frontend at build time `supports` is always false.
#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>
#include <initializer_list>
#include <memory>

#include "backend/cuda/scratch.hpp"
#include "trireme/backend/backend.hpp"

namespace trireme::backend {

class CudnnAttention {
  public:
    CudnnAttention(cudaStream_t stream, SumOrder sums);
    ~CudnnAttention();
    CudnnAttention(const CudnnAttention&) = delete;
    CudnnAttention& operator=(const CudnnAttention&) = delete;

    // The shapes of ops.hpp. False: the own kernels serve. others: the tensors of activations that take part
    // besides qkv.
    bool supports(const Tensor& qkv, const Attention& attention, std::initializer_list<Tensor> others);
    void forward(const Tensor& qkv, const Attention& attention, const Tensor& out, const Tensor& logsumexp,
                 DeviceScratch& workspace);
    void input_gradient(const Tensor& grad_out, const Tensor& qkv, const Tensor& out, const Tensor& logsumexp,
                        const Attention& attention, const Tensor& grad_qkv, DeviceScratch& workspace);

    // Who computes attention without dropout in this build, as people read it.
    static std::string server();

  private:
    struct Impl;
    cudaStream_t stream_;
    SumOrder sums_;
    std::unique_ptr<Impl> impl_; // made at the first call
};

} // namespace trireme::backend
