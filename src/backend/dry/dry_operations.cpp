// Each operation by its tensors: products by their shapes, everything else by the bytes that it must move.
#include "backend/dry/dry_operations.hpp"

#include <algorithm>

#include "backend/cpu/column_sums.hpp"
#include "backend/cpu/scratch_needs.hpp"
#include "backend/cuda/scratch_needs.hpp"

namespace trireme::backend {

std::int64_t DryOperations::scratch_bytes() const {
    if (on_cpu())
        return round_up(scratch_, memory::Plan::kAlignment);
    return scratch_ + (has_products_ ? cuda_scratch::kGemmWorkspaceBytes : 0);
}

void DryOperations::needs(std::int64_t bytes) {
    scratch_ = std::max(scratch_, bytes);
}

void DryOperations::moves(std::initializer_list<Tensor> tensors, double more_bytes) {
    if (observer_ == nullptr)
        return;
    Work work;
    work.bytes = more_bytes;
    for (const Tensor& tensor : tensors)
        work.bytes += static_cast<double>(tensor.bytes());
    observer_->work(work);
}

void DryOperations::multiplies(std::int64_t m, std::int64_t n, std::int64_t k, DType type,
                               const Tensor& result, GradWrite write) {
    has_products_ = true;
    if (on_cpu() && is_narrow(type))
        needs(gemm_narrow_scratch_bytes(m, n, k, result.type()));
    if (observer_ == nullptr)
        return;
    Work work;
    work.kind = WorkKind::matmul;
    work.type = type;
    work.flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    work.bytes = static_cast<double>((m * k + k * n) * size_bytes(type)) +
                 static_cast<double>(result.bytes()) * (write == GradWrite::accumulate ? 2 : 1);
    observer_->work(work);
}

void DryOperations::sums_columns(const Tensor& x, int sums) {
    if (on_cpu())
        needs(ColumnParts(rows(x), columns(x)).elements(sums) * size_bytes(statistics_type(x.type())));
    else
        needs(cuda_scratch::column_sums(columns(x), sums));
}

void DryOperations::attends(WorkKind kind, const Tensor& qkv, const Attention& attention,
                            std::initializer_list<Tensor> tensors, double products) {
    if (observer_ == nullptr)
        return;
    const auto length = static_cast<double>(qkv.shape()[0]), batch = static_cast<double>(qkv.shape()[1]);
    Work work;
    work.kind = kind;
    work.type = qkv.type();
    work.length = length;
    work.head_dim = static_cast<double>(attention.head_dim);
    work.scores = batch * static_cast<double>(attention.heads) * length * length;
    work.flops = products * 2 * work.scores * work.head_dim * (attention.causal == Causal::yes ? 0.5 : 1);
    for (const Tensor& tensor : tensors)
        work.bytes += static_cast<double>(tensor.bytes());
    observer_->work(work);
}

void DryOperations::do_fill(Tensor x, double) {
    moves({x});
}
void DryOperations::do_copy(const Tensor& from, Tensor to) {
    moves({from, to});
}
void DryOperations::do_add(const Tensor& x, Tensor y) {
    moves({x, y, y});
}
void DryOperations::do_scale(Tensor x, double) {
    moves({x, x});
}

void DryOperations::do_embedding_forward(const Tensor&, const Tensor&, std::int64_t, Tensor out) {
    moves({out, out}); // a row is read for each that is written
}
void DryOperations::do_embedding_weight_gradient(const Tensor& tokens, const Tensor& grad_out, std::int64_t,
                                                 Tensor) {
    if (!on_cpu())
        needs(cuda_scratch::token_sort(tokens.elements()));
    moves({grad_out}, 2.0 * static_cast<double>(grad_out.elements()) *
                          static_cast<double>(size_bytes(statistics_type(grad_out.type()))));
}
void DryOperations::do_position_forward(const Tensor& table, std::int64_t, Tensor x) {
    moves({table, x, x});
}
void DryOperations::do_position_weight_gradient(const Tensor& grad_out, std::int64_t, Tensor grad_table) {
    moves({grad_out, grad_table, grad_table});
}
void DryOperations::do_position_lookup_forward(const Tensor&, const Tensor&, Tensor x) {
    moves({x, x, x});
}
void DryOperations::do_position_lookup_weight_gradient(const Tensor& grad_out, const Tensor& positions,
                                                       Tensor grad_table) {
    if (!on_cpu())
        needs(cuda_scratch::token_sort(positions.elements()));
    moves({grad_out, grad_table, grad_table});
}

void DryOperations::do_linear_forward(const Tensor& x, const Tensor&, const Tensor&, Tensor y) {
    multiplies(rows(x), columns(y), columns(x), x.type(), y, GradWrite::overwrite);
}
void DryOperations::do_linear_input_gradient(const Tensor& grad_y, const Tensor&, Tensor grad_x) {
    multiplies(rows(grad_y), columns(grad_x), columns(grad_y), grad_y.type(), grad_x, GradWrite::overwrite);
}
void DryOperations::do_linear_residual_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                               const Tensor& residual, Tensor y) {
    if (on_cpu())
        return Operations::do_linear_residual_forward(x, weight, bias, residual, y);
    multiplies(rows(x), columns(y), columns(x), x.type(), y, GradWrite::accumulate); // the residual is added
}
void DryOperations::do_linear_gelu_input_gradient(const Tensor& grad_y, const Tensor& weight,
                                                  const Tensor& inner, Tensor grad_inner) {
    if (on_cpu() || inner.type() != DType::bf16)
        return Operations::do_linear_gelu_input_gradient(grad_y, weight, inner, grad_inner);
    do_linear_input_gradient(grad_y, weight, grad_inner); // by the product's epilogue
    moves({inner});
}
void DryOperations::do_linear_weight_gradient(const Tensor& x, const Tensor& grad_y, Tensor grad_weight,
                                              GradWrite write) {
    multiplies(columns(grad_y), columns(x), rows(x), x.type(), grad_weight, write);
}
void DryOperations::do_bias_gradient(const Tensor& grad_y, Tensor grad_bias, GradWrite) {
    sums_columns(grad_y, 1);
    moves({grad_y, grad_bias});
}

void DryOperations::do_layer_norm_forward(const Tensor& x, const Tensor&, const Tensor&, double, Tensor y,
                                          Tensor, Tensor) {
    moves({x, y});
}
void DryOperations::do_layer_norm_input_gradient(const Tensor& grad_y, const Tensor& x, const Tensor&,
                                                 const Tensor&, const Tensor&, Tensor grad_x,
                                                 GradWrite write) {
    moves({grad_y, x, grad_x, write == GradWrite::accumulate ? grad_x : Tensor{}});
}
void DryOperations::do_layer_norm_weight_gradient(const Tensor& grad_y, const Tensor& x, const Tensor&,
                                                  const Tensor&, Tensor, Tensor, GradWrite) {
    sums_columns(x, 2);
    moves({grad_y, x});
}
void DryOperations::do_layer_norm_gradients(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                            const Tensor& mean, const Tensor& rstd, Tensor grad_x,
                                            GradWrite write, const NormWeightGradients& of_weights) {
    if (on_cpu())
        return Operations::do_layer_norm_gradients(grad_y, x, weight, mean, rstd, grad_x, write, of_weights);
    takes_norm_gradients(grad_y, x, grad_x, write, 2);
}
void DryOperations::do_rms_norm_forward(const Tensor& x, const Tensor&, double, Tensor y, Tensor) {
    moves({x, y});
}
void DryOperations::do_rms_norm_input_gradient(const Tensor& grad_y, const Tensor& x, const Tensor&,
                                               const Tensor&, Tensor grad_x, GradWrite write) {
    moves({grad_y, x, grad_x, write == GradWrite::accumulate ? grad_x : Tensor{}});
}
void DryOperations::do_rms_norm_weight_gradient(const Tensor& grad_y, const Tensor& x, const Tensor&, Tensor,
                                                GradWrite) {
    sums_columns(x, 1);
    moves({grad_y, x});
}

void DryOperations::do_rms_norm_gradients(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                          const Tensor& rstd, Tensor grad_x, GradWrite write,
                                          const NormWeightGradients& of_weights) {
    if (on_cpu())
        return Operations::do_rms_norm_gradients(grad_y, x, weight, rstd, grad_x, write, of_weights);
    takes_norm_gradients(grad_y, x, grad_x, write, 1);
}
void DryOperations::takes_norm_gradients(const Tensor& grad_y, const Tensor& x, const Tensor& grad_x,
                                         GradWrite write, int sums) {
    if (cuda_scratch::norm_gradients_at_once(columns(x), size_bytes(x.type()))) {
        needs(cuda_scratch::norm_gradient(rows(x), columns(x), sums));
    } else {
        sums_columns(x, sums);
        moves({grad_y, x}); // once more
    }
    moves({grad_y, x, grad_x, write == GradWrite::accumulate ? grad_x : Tensor{}});
}

void DryOperations::do_gelu_forward(const Tensor& x, Tensor y) {
    moves({x, y});
}
void DryOperations::do_gelu_input_gradient(const Tensor& grad_y, const Tensor& x, Tensor grad_x) {
    moves({grad_y, x, grad_x});
}
void DryOperations::do_swiglu_forward(const Tensor& gate_up, Tensor y) {
    moves({gate_up, y});
}
void DryOperations::do_swiglu_input_gradient(const Tensor& grad_y, const Tensor& gate_up,
                                             Tensor grad_gate_up) {
    moves({grad_y, gate_up, grad_gate_up});
}
void DryOperations::do_rotary(Tensor qkv, std::int64_t heads, const Tensor&, const Tensor&, std::int64_t,
                              RotaryDirection) {
    const double turned = static_cast<double>(heads) / static_cast<double>(qkv.shape()[2]);
    moves({}, 2 * turned * static_cast<double>(qkv.bytes()));
}

void DryOperations::do_attention_forward(const Tensor& qkv, const Attention& attention, Tensor out,
                                         Tensor logsumexp) {
    if (on_cpu())
        needs(attention_forward_scratch_bytes(qkv.type(), attention.head_dim));
    else if (attention.dropout.probability > 0 && cuda_scratch::hopper_serves(qkv.type(), attention))
        needs(4 * cuda_scratch::kept_words(qkv.shape()[1], attention.heads, qkv.shape()[0]));
    attends(WorkKind::attention_forward, qkv, attention, {qkv, out, logsumexp}, 2);
}
void DryOperations::do_attention_input_gradient(const Tensor& grad_out, const Tensor& qkv, const Tensor& out,
                                                const Tensor& logsumexp, const Attention& attention,
                                                Tensor grad_qkv) {
    const std::int64_t length = qkv.shape()[0], batch = qkv.shape()[1];
    if (on_cpu())
        needs(attention_gradient_scratch_bytes(qkv.type(), length, attention.head_dim));
    else if (cuda_scratch::cudnn_serves(qkv.type(), attention))
        needs(cuda_scratch::cudnn_attention_gradient(batch, attention.heads, length, attention.head_dim));
    else if (cuda_scratch::hopper_serves(qkv.type(), attention))
        needs(cuda_scratch::hopper_attention_gradient(batch, attention.heads, length,
                                                      attention.dropout.probability > 0));
    else
        needs(cuda_scratch::own_attention_gradient(batch, attention.heads, length));
    attends(WorkKind::attention_gradient, qkv, attention, {qkv, out, grad_out, out, logsumexp, grad_qkv},
            5); // the scores are multiplied out again
}

void DryOperations::do_bias_dropout_residual(const Tensor& x, const Tensor&, const Tensor& residual,
                                             const Dropout&, Tensor out) {
    moves({x, residual, out});
}
void DryOperations::do_dropout_gradient(const Tensor& grad_out, const Dropout&, Tensor grad_x) {
    moves({grad_out, grad_x});
}

void DryOperations::do_cross_entropy_maximum(const Tensor& logits, std::int64_t, Tensor) {
    moves({logits});
}
void DryOperations::do_cross_entropy_sums(const Tensor& logits, std::int64_t, const Tensor&, std::int64_t,
                                          const Tensor&, Tensor) {
    moves({logits});
}
void DryOperations::do_cross_entropy_loss(const Tensor& sums, const Tensor&, Tensor) {
    moves({sums});
}
void DryOperations::do_cross_entropy_gradient(Tensor logits, std::int64_t, const Tensor&, std::int64_t,
                                              const Tensor&, const Tensor&, const Tensor&, double) {
    moves({logits, logits});
}
void DryOperations::do_cross_entropy(Tensor logits, std::int64_t valid_columns, const Tensor& targets,
                                     const Tensor& mask, double factor, Tensor maximum, Tensor sums,
                                     Tensor loss) {
    if (on_cpu())
        return Operations::do_cross_entropy(logits, valid_columns, targets, mask, factor, maximum, sums,
                                            loss);
    moves({logits, logits});
}

void DryOperations::do_sum_of_squares(const Tensor& x, Tensor, GradWrite) {
    needs(on_cpu() ? squares_scratch_bytes(x.elements()) : cuda_scratch::squares());
    moves({x});
}
void DryOperations::do_update_factor(const Tensor&, const FactorRule&, Tensor) {}
void DryOperations::do_adam_update(Tensor master, const Tensor& gradient, Tensor moment1, Tensor moment2,
                                   Tensor weights, const Tensor&, const Adam&) {
    const bool split = master.type() == DType::i16; // then weights are read, too
    moves(
        {master, master, gradient, moment1, moment1, moment2, moment2, weights, split ? weights : Tensor{}});
}

} // namespace trireme::backend
