// What fused operations are made of on a device that has nothing better.
#include "backend/ops/check.hpp"

namespace trireme::backend {

using namespace checks;

void Operations::do_linear_gelu_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                        Tensor inner, Tensor y) {
    do_linear_forward(x, weight, bias, inner);
    do_gelu_forward(inner, y);
}

void Operations::do_linear_gelu_input_gradient(const Tensor& grad_y, const Tensor& weight,
                                               const Tensor& inner, Tensor grad_inner) {
    do_linear_input_gradient(grad_y, weight, grad_inner);
    do_gelu_input_gradient(grad_inner, inner, grad_inner);
}

void Operations::do_linear_residual_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                            const Tensor& residual, Tensor y) {
    const Shape hidden{1, rows(y), columns(y)};
    do_linear_forward(x, weight, {}, y);
    do_bias_dropout_residual(y.reshaped(hidden), bias, residual.reshaped(hidden), {}, y.reshaped(hidden));
}

void Operations::do_layer_norm_gradients(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                         const Tensor& mean, const Tensor& rstd, Tensor grad_x,
                                         GradWrite write, const NormWeightGradients& of_weights) {
    do_layer_norm_weight_gradient(grad_y, x, mean, rstd, of_weights.weight, of_weights.bias,
                                  of_weights.write);
    do_layer_norm_input_gradient(grad_y, x, weight, mean, rstd, grad_x, write);
}

void Operations::do_rms_norm_gradients(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                       const Tensor& rstd, Tensor grad_x, GradWrite write,
                                       const NormWeightGradients& of_weights) {
    do_rms_norm_weight_gradient(grad_y, x, rstd, of_weights.weight, of_weights.write);
    do_rms_norm_input_gradient(grad_y, x, weight, rstd, grad_x, write);
}

void Operations::do_cross_entropy(Tensor logits, std::int64_t valid_columns, const Tensor& targets,
                                  const Tensor& mask, double factor, Tensor maximum, Tensor sums,
                                  Tensor loss) {
    do_cross_entropy_maximum(logits, valid_columns, maximum);
    do_cross_entropy_sums(logits, valid_columns, targets, 0, maximum, sums);
    do_cross_entropy_loss(sums, mask, loss);
    do_cross_entropy_gradient(logits, valid_columns, targets, 0, maximum, sums, mask, factor);
}

} // namespace trireme::backend
