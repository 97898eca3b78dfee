// CUDA's overrides of ops.hpp on one stream; each family of operations stands in the file named after it.
// bf16 and fp32 activations; main gradients, statistics and every sum in fp32 (the norm in fp64). Everything
// is enqueued, nothing waits.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/attention_cudnn.hpp"
#include "backend/cuda/gemm.hpp"
#include "backend/cuda/scratch.hpp"
#include "trireme/backend/ops.hpp"

namespace trireme::backend {

class CudaOperations final : public Operations {
  public:
    CudaOperations(cudaStream_t stream, memory::Allocator& allocator, SumOrder sums)
        : stream_(stream), scratch_(allocator), gemm_(stream, allocator), cudnn_(stream, sums) {}

    Gemm& gemm() { return gemm_; }
    // Takes what operations on this stream will need, products' workspace included.
    void reserve_scratch(std::int64_t bytes) {
        gemm_.reserve_workspace();
        scratch_.reserve(bytes - Gemm::kWorkspaceBytes);
    }

  private:
    // elementwise.cu
    void do_fill(Tensor x, double value) override;
    void do_copy(const Tensor& from, Tensor to) override;
    void do_add(const Tensor& x, Tensor y) override;
    void do_scale(Tensor x, double factor) override;
    // embedding.cu
    void do_embedding_forward(const Tensor& tokens, const Tensor& table, std::int64_t first_row,
                              Tensor out) override;
    void do_embedding_weight_gradient(const Tensor& tokens, const Tensor& grad_out, std::int64_t first_row,
                                      Tensor grad_table) override;
    void do_position_forward(const Tensor& table, std::int64_t first_position, Tensor x) override;
    void do_position_weight_gradient(const Tensor& grad_out, std::int64_t first_position,
                                     Tensor grad_table) override;
    void do_position_lookup_forward(const Tensor& table, const Tensor& positions, Tensor x) override;
    void do_position_lookup_weight_gradient(const Tensor& grad_out, const Tensor& positions,
                                            Tensor grad_table) override;
    // linear.cpp
    void do_linear_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor y) override;
    void do_linear_input_gradient(const Tensor& grad_y, const Tensor& weight, Tensor grad_x) override;
    void do_linear_weight_gradient(const Tensor& x, const Tensor& grad_y, Tensor grad_weight,
                                   GradWrite write) override;
    void do_linear_gelu_input_gradient(const Tensor& grad_y, const Tensor& weight, const Tensor& inner,
                                       Tensor grad_inner) override;
    void do_linear_residual_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                    const Tensor& residual, Tensor y) override;
    // bias_gradient.cu
    void do_bias_gradient(const Tensor& grad_y, Tensor grad_bias, GradWrite write) override;
    // layer_norm.cu
    void do_layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                               Tensor y, Tensor mean, Tensor rstd) override;
    void do_layer_norm_input_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                      const Tensor& mean, const Tensor& rstd, Tensor grad_x,
                                      GradWrite write) override;
    void do_layer_norm_weight_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& mean,
                                       const Tensor& rstd, Tensor grad_weight, Tensor grad_bias,
                                       GradWrite write) override;
    void do_layer_norm_gradients(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                 const Tensor& mean, const Tensor& rstd, Tensor grad_x, GradWrite write,
                                 const NormWeightGradients& of_weights) override;
    // rms_norm.cu
    void do_rms_norm_forward(const Tensor& x, const Tensor& weight, double epsilon, Tensor y,
                             Tensor rstd) override;
    void do_rms_norm_input_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                    const Tensor& rstd, Tensor grad_x, GradWrite write) override;
    void do_rms_norm_weight_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& rstd,
                                     Tensor grad_weight, GradWrite write) override;
    void do_rms_norm_gradients(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                               const Tensor& rstd, Tensor grad_x, GradWrite write,
                               const NormWeightGradients& of_weights) override;
    // swiglu.cu
    void do_swiglu_forward(const Tensor& gate_up, Tensor y) override;
    void do_swiglu_input_gradient(const Tensor& grad_y, const Tensor& gate_up, Tensor grad_gate_up) override;
    // rotary.cu
    void do_rotary(Tensor qkv, std::int64_t heads, const Tensor& table, const Tensor& positions,
                   std::int64_t first_position, RotaryDirection direction) override;
    // gelu.cu
    void do_gelu_forward(const Tensor& x, Tensor y) override;
    void do_gelu_input_gradient(const Tensor& grad_y, const Tensor& x, Tensor grad_x) override;
    // attention.cpp chooses between cuDNN and the kernels of attention_forward.cu and attention_gradient.cu
    void do_attention_forward(const Tensor& qkv, const Attention& attention, Tensor out,
                              Tensor logsumexp) override;
    void do_attention_input_gradient(const Tensor& grad_out, const Tensor& qkv, const Tensor& out,
                                     const Tensor& logsumexp, const Attention& attention,
                                     Tensor grad_qkv) override;
    // dropout.cu
    void do_bias_dropout_residual(const Tensor& x, const Tensor& bias, const Tensor& residual,
                                  const Dropout& dropout, Tensor out) override;
    void do_dropout_gradient(const Tensor& grad_out, const Dropout& dropout, Tensor grad_x) override;
    // cross_entropy.cu
    void do_cross_entropy_maximum(const Tensor& logits, std::int64_t valid_columns, Tensor maximum) override;
    void do_cross_entropy_sums(const Tensor& logits, std::int64_t valid_columns, const Tensor& targets,
                               std::int64_t first_row, const Tensor& maximum, Tensor sums) override;
    void do_cross_entropy_loss(const Tensor& sums, const Tensor& mask, Tensor loss) override;
    void do_cross_entropy_gradient(Tensor logits, std::int64_t valid_columns, const Tensor& targets,
                                   std::int64_t first_row, const Tensor& maximum, const Tensor& sums,
                                   const Tensor& mask, double factor) override;
    void do_cross_entropy(Tensor logits, std::int64_t valid_columns, const Tensor& targets,
                          const Tensor& mask, double factor, Tensor maximum, Tensor sums,
                          Tensor loss) override;
    // optimizer.cu
    void do_sum_of_squares(const Tensor& x, Tensor result, GradWrite write) override;
    void do_update_factor(const Tensor& squared_norm, const FactorRule& rule, Tensor factor) override;
    void do_adam_update(Tensor master, const Tensor& gradient, Tensor moment1, Tensor moment2, Tensor weights,
                        const Tensor& factor, const Adam& adam) override;

    cudaStream_t stream_;
    DeviceScratch scratch_;
    Gemm gemm_;
    CudnnAttention cudnn_;
};

} // namespace trireme::backend
