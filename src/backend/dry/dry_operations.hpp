// What each operation of ops.hpp is made of, and the scratch that the imitated device takes for it.
#pragma once

#include <initializer_list>

#include "trireme/backend/dry.hpp"

namespace trireme::backend {

class DryOperations final : public Operations {
  public:
    DryOperations(Device imitated, WorkObserver* observer) : imitated_(imitated), observer_(observer) {}

    // CPU: of one worker. CUDA: of the compute stream, the workspace of products included.
    std::int64_t scratch_bytes() const;

  private:
    void do_fill(Tensor x, double value) override;
    void do_copy(const Tensor& from, Tensor to) override;
    void do_add(const Tensor& x, Tensor y) override;
    void do_scale(Tensor x, double factor) override;
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
    void do_linear_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor y) override;
    void do_linear_input_gradient(const Tensor& grad_y, const Tensor& weight, Tensor grad_x) override;
    void do_linear_weight_gradient(const Tensor& x, const Tensor& grad_y, Tensor grad_weight,
                                   GradWrite write) override;
    void do_bias_gradient(const Tensor& grad_y, Tensor grad_bias, GradWrite write) override;
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
    void do_rms_norm_forward(const Tensor& x, const Tensor& weight, double epsilon, Tensor y,
                             Tensor rstd) override;
    void do_rms_norm_input_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                    const Tensor& rstd, Tensor grad_x, GradWrite write) override;
    void do_rms_norm_weight_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& rstd,
                                     Tensor grad_weight, GradWrite write) override;
    void do_rms_norm_gradients(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                               const Tensor& rstd, Tensor grad_x, GradWrite write,
                               const NormWeightGradients& of_weights) override;
    void do_swiglu_forward(const Tensor& gate_up, Tensor y) override;
    void do_swiglu_input_gradient(const Tensor& grad_y, const Tensor& gate_up, Tensor grad_gate_up) override;
    void do_rotary(Tensor qkv, std::int64_t heads, const Tensor& table, const Tensor& positions,
                   std::int64_t first_position, RotaryDirection direction) override;
    void do_gelu_forward(const Tensor& x, Tensor y) override;
    void do_gelu_input_gradient(const Tensor& grad_y, const Tensor& x, Tensor grad_x) override;
    void do_attention_forward(const Tensor& qkv, const Attention& attention, Tensor out,
                              Tensor logsumexp) override;
    void do_attention_input_gradient(const Tensor& grad_out, const Tensor& qkv, const Tensor& out,
                                     const Tensor& logsumexp, const Attention& attention,
                                     Tensor grad_qkv) override;
    void do_bias_dropout_residual(const Tensor& x, const Tensor& bias, const Tensor& residual,
                                  const Dropout& dropout, Tensor out) override;
    void do_dropout_gradient(const Tensor& grad_out, const Dropout& dropout, Tensor grad_x) override;
    void do_cross_entropy_maximum(const Tensor& logits, std::int64_t valid_columns, Tensor maximum) override;
    void do_cross_entropy_sums(const Tensor& logits, std::int64_t valid_columns, const Tensor& targets,
                               std::int64_t first_row, const Tensor& maximum, Tensor sums) override;
    void do_cross_entropy_loss(const Tensor& sums, const Tensor& mask, Tensor loss) override;
    void do_cross_entropy_gradient(Tensor logits, std::int64_t valid_columns, const Tensor& targets,
                                   std::int64_t first_row, const Tensor& maximum, const Tensor& sums,
                                   const Tensor& mask, double factor) override;
    void do_sum_of_squares(const Tensor& x, Tensor result, GradWrite write) override;
    void do_update_factor(const Tensor& squared_norm, const FactorRule& rule, Tensor factor) override;
    void do_adam_update(Tensor master, const Tensor& gradient, Tensor moment1, Tensor moment2, Tensor weights,
                        const Tensor& factor, const Adam& adam) override;
    void do_linear_residual_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                    const Tensor& residual, Tensor y) override;
    void do_linear_gelu_input_gradient(const Tensor& grad_y, const Tensor& weight, const Tensor& inner,
                                       Tensor grad_inner) override;
    void do_cross_entropy(Tensor logits, std::int64_t valid_columns, const Tensor& targets,
                          const Tensor& mask, double factor, Tensor maximum, Tensor sums,
                          Tensor loss) override;

    // An operation that reads and writes these tensors.
    void moves(std::initializer_list<Tensor> tensors, double more_bytes = 0);
    // [m, k] x [k, n] of one type; `accumulates`: the result is read as well.
    void multiplies(std::int64_t m, std::int64_t n, std::int64_t k, DType type, const Tensor& result,
                    GradWrite write);
    void attends(WorkKind kind, const Tensor& qkv, const Attention& attention,
                 std::initializer_list<Tensor> tensors, double products);
    void sums_columns(const Tensor& x, int sums);
    void takes_norm_gradients(const Tensor& grad_y, const Tensor& x, const Tensor& grad_x, GradWrite write,
                              int sums);
    void needs(std::int64_t bytes);
    bool on_cpu() const { return imitated_ == Device::cpu; }

    Device imitated_;
    WorkObserver* observer_;
    std::int64_t scratch_ = 0;
    bool has_products_ = false;
};

} // namespace trireme::backend
