// The public operations: each checks types and shapes once, for every backend, and then calls its override. A
// mismatch is a bug of the caller, so the error is internal; it names the operation, the rule and every
// tensor's shape.
#include "trireme/backend/ops.hpp"

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::backend {
namespace {

struct Named {
    Named() = default;
    Named(std::string_view text, const Tensor& named) : label(text), tensor(&named) {}
    std::string_view label;
    const Tensor* tensor = nullptr;
};

// One call of an operation: keeps its tensors for the message and checks rule by rule.
class Check {
  public:
    Check(std::string_view operation, std::initializer_list<Named> tensors) : operation_(operation) {
        for (const Named& tensor : tensors)
            tensors_[count_++] = tensor;
    }

    const Check& that(bool holds, std::string_view rule) const {
        if (!holds) [[unlikely]]
            refuse(rule);
        return *this;
    }
    // All but the last `optional` tensors exist.
    const Check& defined(std::size_t optional = 0) const {
        for (std::size_t i = 0; i + optional < count_; ++i)
            that(tensors_[i].tensor->defined(), "a tensor is missing");
        return *this;
    }
    // An undefined tensor passes.
    const Check& type(const Tensor& tensor, DType type, std::string_view rule) const {
        return that(!tensor.defined() || tensor.type() == type, rule);
    }

  private:
    [[noreturn]] void refuse(std::string_view rule) const {
        std::vector<std::string> details;
        for (std::size_t i = 0; i < count_; ++i) {
            const auto& [label, tensor] = tensors_[i];
            details.push_back(tensor->defined()
                                  ? concat(label, " ", tensor->shape().text(), " ", name(tensor->type()))
                                  : concat(label, " undefined"));
        }
        throw Error(ErrorCategory::internal, concat(operation_, ": ", rule), std::move(details));
    }

    static constexpr std::size_t kMostTensors = 6;
    std::string_view operation_;
    std::array<Named, kMostTensors> tensors_{};
    std::size_t count_ = 0;
};

std::int64_t columns(const Tensor& tensor) {
    return tensor.shape().rank() == 0 ? 1 : tensor.shape()[tensor.shape().rank() - 1];
}
// Leading axes count as one: [T, B, C] has T * B rows.
std::int64_t rows(const Tensor& tensor) {
    return columns(tensor) == 0 ? 0 : tensor.elements() / columns(tensor);
}
bool is_vector(const Tensor& tensor, std::int64_t elements) {
    return tensor.shape().rank() == 1 && tensor.elements() == elements;
}
bool is_matrix(const Tensor& tensor, std::int64_t row_count, std::int64_t column_count) {
    return tensor.shape().rank() == 2 && tensor.shape()[0] == row_count && tensor.shape()[1] == column_count;
}
bool same_rows(const Tensor& a, const Tensor& b) {
    return rows(a) == rows(b);
}

constexpr std::string_view kOneType = "activations and weights have one float type";
constexpr std::string_view kMainType = "gradients of weights are in the main type: fp64 for fp64, else fp32";
constexpr std::string_view kStatType = "statistics are fp64 for fp64 activations, else fp32";
constexpr std::string_view kTokenType = "tokens and targets are int32";
constexpr std::string_view kPositionType = "positions are int32";

void check_dropout(const Check& check, const Dropout& dropout) {
    check.that(dropout.probability >= 0 && dropout.probability < 1, "the dropout probability lies in [0, 1)")
        .that(dropout.layer >= 0 && dropout.layer < 4096, "the layer of a dropout lies in [0, 4096)")
        .that(dropout.first_sample >= 0 && dropout.first_position >= 0, "dropout positions are not negative");
}

void check_attention(const Check& check, const Attention& a, const Tensor& qkv, const Tensor& out,
                     const Tensor& logsumexp) {
    check.that(a.heads > 0 && a.groups > 0 && a.heads % a.groups == 0 && a.head_dim > 0,
               "heads is a multiple of groups, and all sizes are positive");
    check.that(qkv.shape().rank() == 4 && qkv.shape()[2] == a.heads + 2 * a.groups &&
                   qkv.shape()[3] == a.head_dim,
               "qkv is [T, B, H + 2 G, D]");
    const std::int64_t length = qkv.shape()[0], batch = qkv.shape()[1];
    check.that(out.shape() == Shape({length, batch, a.heads, a.head_dim}), "out is [T, B, H, D]");
    check.that(logsumexp.shape() == Shape({batch, a.heads, length}), "logsumexp is [B, H, T]");
    check.type(logsumexp, statistics_type(qkv.type()), kStatType).type(out, qkv.type(), kOneType);
    check_dropout(check, a.dropout);
    check.type(a.documents, DType::i32, kPositionType)
        .that(!a.documents.defined() ||
                  (a.documents.shape() == Shape({length, batch}) && a.causal == Causal::yes),
              "documents is [T, B] and goes with causal attention");
    check.that(a.first_head >= 0 && a.first_head + a.heads <= 65536, "global head numbers lie in [0, 65536)");
}

} // namespace

void Operations::fill(Tensor x, double value) {
    Check("fill", {{"x", x}}).defined();
    do_fill(x, value);
}

void Operations::copy(const Tensor& from, Tensor to) {
    Check("copy", {{"from", from}, {"to", to}})
        .defined()
        .that(from.elements() == to.elements(), "both have the same number of elements")
        .that(from.type() == to.type() || (is_float(from.type()) && is_float(to.type())),
              "only float types are converted");
    do_copy(from, to);
}

void Operations::add(const Tensor& x, Tensor y) {
    Check("add", {{"x", x}, {"y", y}})
        .defined()
        .that(x.elements() == y.elements(), "both have the same number of elements")
        .that(is_float(x.type()) && is_float(y.type()), "both are floats");
    do_add(x, y);
}

void Operations::scale(Tensor x, double factor) {
    Check("scale", {{"x", x}}).defined().that(is_float(x.type()), "x is a float");
    do_scale(x, factor);
}

void Operations::embedding_forward(const Tensor& tokens, const Tensor& table, std::int64_t first_row,
                                   Tensor out) {
    Check("embedding_forward", {{"tokens", tokens}, {"table", table}, {"out", out}})
        .defined()
        .type(tokens, DType::i32, kTokenType)
        .type(out, table.type(), kOneType)
        .that(table.shape().rank() == 2 && columns(out) == columns(table) && rows(out) == tokens.elements(),
              "tokens [T, B], table [V, C], out [T, B, C]");
    do_embedding_forward(tokens, table, first_row, out);
}

void Operations::embedding_weight_gradient(const Tensor& tokens, const Tensor& grad_out,
                                           std::int64_t first_row, Tensor grad_table) {
    Check("embedding_weight_gradient",
          {{"tokens", tokens}, {"grad_out", grad_out}, {"grad_table", grad_table}})
        .defined()
        .type(tokens, DType::i32, kTokenType)
        .type(grad_table, statistics_type(grad_out.type()), kMainType)
        .that(grad_table.shape().rank() == 2 && columns(grad_out) == columns(grad_table) &&
                  rows(grad_out) == tokens.elements(),
              "tokens [T, B], grad_out [T, B, C], grad_table [V, C]");
    do_embedding_weight_gradient(tokens, grad_out, first_row, grad_table);
}

void Operations::position_forward(const Tensor& table, std::int64_t first_position, Tensor x) {
    Check("position_forward", {{"table", table}, {"x", x}})
        .defined()
        .type(x, table.type(), kOneType)
        .that(x.shape().rank() == 3 && table.shape().rank() == 2 && columns(x) == columns(table),
              "table [P, C], x [T, B, C]")
        .that(first_position >= 0 && first_position + x.shape()[0] <= table.shape()[0],
              "positions first_position ... first_position + T - 1 are rows of the table");
    do_position_forward(table, first_position, x);
}

void Operations::position_weight_gradient(const Tensor& grad_out, std::int64_t first_position,
                                          Tensor grad_table) {
    Check("position_weight_gradient", {{"grad_out", grad_out}, {"grad_table", grad_table}})
        .defined()
        .type(grad_table, statistics_type(grad_out.type()), kMainType)
        .that(grad_out.shape().rank() == 3 && grad_table.shape().rank() == 2 &&
                  columns(grad_out) == columns(grad_table),
              "grad_out [T, B, C], grad_table [P, C]")
        .that(first_position >= 0 && first_position + grad_out.shape()[0] <= grad_table.shape()[0],
              "positions first_position ... first_position + T - 1 are rows of the table");
    do_position_weight_gradient(grad_out, first_position, grad_table);
}

void Operations::position_lookup_forward(const Tensor& table, const Tensor& positions, Tensor x) {
    Check("position_lookup_forward", {{"table", table}, {"positions", positions}, {"x", x}})
        .defined()
        .type(x, table.type(), kOneType)
        .type(positions, DType::i32, kPositionType)
        .that(table.shape().rank() == 2 && columns(x) == columns(table) && rows(x) == positions.elements(),
              "table [P, C], positions [T, B], x [T, B, C]");
    do_position_lookup_forward(table, positions, x);
}

void Operations::position_lookup_weight_gradient(const Tensor& grad_out, const Tensor& positions,
                                                 Tensor grad_table) {
    Check("position_lookup_weight_gradient",
          {{"grad_out", grad_out}, {"positions", positions}, {"grad_table", grad_table}})
        .defined()
        .type(grad_table, statistics_type(grad_out.type()), kMainType)
        .type(positions, DType::i32, kPositionType)
        .that(grad_table.shape().rank() == 2 && columns(grad_out) == columns(grad_table) &&
                  rows(grad_out) == positions.elements(),
              "grad_out [T, B, C], positions [T, B], grad_table [P, C]");
    do_position_lookup_weight_gradient(grad_out, positions, grad_table);
}

void Operations::linear_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor y) {
    Check("linear_forward", {{"x", x}, {"weight", weight}, {"y", y}, {"bias", bias}})
        .defined(1)
        .type(weight, x.type(), kOneType)
        .type(bias, x.type(), kOneType)
        .type(y, x.type(), kOneType)
        .that(is_matrix(weight, columns(y), columns(x)) && same_rows(x, y) &&
                  (!bias.defined() || is_vector(bias, columns(y))),
              "x [n, in], weight [out, in], bias [out], y [n, out]");
    do_linear_forward(x, weight, bias, y);
}

void Operations::linear_input_gradient(const Tensor& grad_y, const Tensor& weight, Tensor grad_x) {
    Check("linear_input_gradient", {{"grad_y", grad_y}, {"weight", weight}, {"grad_x", grad_x}})
        .defined()
        .type(weight, grad_y.type(), kOneType)
        .type(grad_x, grad_y.type(), kOneType)
        .that(is_matrix(weight, columns(grad_y), columns(grad_x)) && same_rows(grad_y, grad_x),
              "grad_y [n, out], weight [out, in], grad_x [n, in]");
    do_linear_input_gradient(grad_y, weight, grad_x);
}

void Operations::linear_gelu_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor inner,
                                     Tensor y) {
    Check("linear_gelu_forward", {{"x", x}, {"weight", weight}, {"inner", inner}, {"y", y}, {"bias", bias}})
        .defined(1)
        .type(weight, x.type(), kOneType)
        .type(bias, x.type(), kOneType)
        .type(inner, x.type(), kOneType)
        .type(y, x.type(), kOneType)
        .that(is_matrix(weight, columns(y), columns(x)) && same_rows(x, y) && same_rows(x, inner) &&
                  columns(inner) == columns(y) && (!bias.defined() || is_vector(bias, columns(y))),
              "x [n, in], weight [out, in], bias [out], inner, y [n, out]");
    do_linear_gelu_forward(x, weight, bias, inner, y);
}

void Operations::linear_gelu_input_gradient(const Tensor& grad_y, const Tensor& weight, const Tensor& inner,
                                            Tensor grad_inner) {
    Check("linear_gelu_input_gradient",
          {{"grad_y", grad_y}, {"weight", weight}, {"inner", inner}, {"grad_inner", grad_inner}})
        .defined()
        .type(weight, grad_y.type(), kOneType)
        .type(inner, grad_y.type(), kOneType)
        .type(grad_inner, grad_y.type(), kOneType)
        .that(is_matrix(weight, columns(grad_y), columns(grad_inner)) && same_rows(grad_y, grad_inner) &&
                  columns(inner) == columns(grad_inner) && same_rows(inner, grad_inner),
              "grad_y [n, out], weight [out, in], inner, grad_inner [n, in]");
    do_linear_gelu_input_gradient(grad_y, weight, inner, grad_inner);
}

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

void Operations::linear_weight_gradient(const Tensor& x, const Tensor& grad_y, Tensor grad_weight,
                                        GradWrite write) {
    Check("linear_weight_gradient", {{"x", x}, {"grad_y", grad_y}, {"grad_weight", grad_weight}})
        .defined()
        .type(grad_y, x.type(), kOneType)
        .type(grad_weight, statistics_type(x.type()), kMainType)
        .that(is_matrix(grad_weight, columns(grad_y), columns(x)) && same_rows(x, grad_y),
              "x [n, in], grad_y [n, out], grad_weight [out, in]");
    do_linear_weight_gradient(x, grad_y, grad_weight, write);
}

void Operations::bias_gradient(const Tensor& grad_y, Tensor grad_bias, GradWrite write) {
    Check("bias_gradient", {{"grad_y", grad_y}, {"grad_bias", grad_bias}})
        .defined()
        .type(grad_bias, statistics_type(grad_y.type()), kMainType)
        .that(is_vector(grad_bias, columns(grad_y)), "grad_y [n, out], grad_bias [out]");
    do_bias_gradient(grad_y, grad_bias, write);
}

void Operations::linear_residual_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                         const Tensor& residual, Tensor y) {
    Check("linear_residual_forward",
          {{"x", x}, {"weight", weight}, {"residual", residual}, {"y", y}, {"bias", bias}})
        .defined(1)
        .type(weight, x.type(), kOneType)
        .type(bias, x.type(), kOneType)
        .type(residual, x.type(), kOneType)
        .type(y, x.type(), kOneType)
        .that(is_matrix(weight, columns(y), columns(x)) && same_rows(x, y) && same_rows(residual, y) &&
                  columns(residual) == columns(y) && (!bias.defined() || is_vector(bias, columns(y))),
              "x [n, in], weight [out, in], bias [out], residual, y [n, out]")
        .that(residual.data() != y.data(), "y is not the residual");
    do_linear_residual_forward(x, weight, bias, residual, y);
}

void Operations::do_linear_residual_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                            const Tensor& residual, Tensor y) {
    const Shape hidden{1, rows(y), columns(y)};
    do_linear_forward(x, weight, {}, y);
    do_bias_dropout_residual(y.reshaped(hidden), bias, residual.reshaped(hidden), {}, y.reshaped(hidden));
}

void Operations::layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                                    Tensor y, Tensor mean, Tensor rstd) {
    Check("layer_norm_forward",
          {{"x", x}, {"weight", weight}, {"bias", bias}, {"y", y}, {"mean", mean}, {"rstd", rstd}})
        .defined()
        .type(weight, x.type(), kOneType)
        .type(bias, x.type(), kOneType)
        .type(y, x.type(), kOneType)
        .type(mean, statistics_type(x.type()), kStatType)
        .type(rstd, statistics_type(x.type()), kStatType)
        .that(columns(y) == columns(x) && same_rows(x, y) && is_vector(weight, columns(x)) &&
                  is_vector(bias, columns(x)) && mean.elements() == rows(x) && rstd.elements() == rows(x),
              "x, y [n, C], weight, bias [C], mean, rstd [n]");
    do_layer_norm_forward(x, weight, bias, epsilon, y, mean, rstd);
}

void Operations::layer_norm_input_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                           const Tensor& mean, const Tensor& rstd, Tensor grad_x,
                                           GradWrite write) {
    Check("layer_norm_input_gradient", {{"grad_y", grad_y},
                                        {"x", x},
                                        {"weight", weight},
                                        {"mean", mean},
                                        {"rstd", rstd},
                                        {"grad_x", grad_x}})
        .defined()
        .type(grad_y, x.type(), kOneType)
        .type(weight, x.type(), kOneType)
        .type(grad_x, x.type(), kOneType)
        .type(mean, statistics_type(x.type()), kStatType)
        .type(rstd, statistics_type(x.type()), kStatType)
        .that(columns(grad_y) == columns(x) && same_rows(x, grad_y) && columns(grad_x) == columns(x) &&
                  same_rows(x, grad_x) && is_vector(weight, columns(x)) && mean.elements() == rows(x) &&
                  rstd.elements() == rows(x),
              "grad_y, x, grad_x [n, C], weight [C], mean, rstd [n]");
    do_layer_norm_input_gradient(grad_y, x, weight, mean, rstd, grad_x, write);
}

void Operations::layer_norm_weight_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& mean,
                                            const Tensor& rstd, Tensor grad_weight, Tensor grad_bias,
                                            GradWrite write) {
    Check("layer_norm_weight_gradient", {{"grad_y", grad_y},
                                         {"x", x},
                                         {"mean", mean},
                                         {"rstd", rstd},
                                         {"grad_weight", grad_weight},
                                         {"grad_bias", grad_bias}})
        .defined()
        .type(grad_y, x.type(), kOneType)
        .type(mean, statistics_type(x.type()), kStatType)
        .type(rstd, statistics_type(x.type()), kStatType)
        .type(grad_weight, statistics_type(x.type()), kMainType)
        .type(grad_bias, statistics_type(x.type()), kMainType)
        .that(columns(grad_y) == columns(x) && same_rows(x, grad_y) && is_vector(grad_weight, columns(x)) &&
                  is_vector(grad_bias, columns(x)) && mean.elements() == rows(x) &&
                  rstd.elements() == rows(x),
              "grad_y, x [n, C], mean, rstd [n], grad_weight, grad_bias [C]");
    do_layer_norm_weight_gradient(grad_y, x, mean, rstd, grad_weight, grad_bias, write);
}

void Operations::rms_norm_forward(const Tensor& x, const Tensor& weight, double epsilon, Tensor y,
                                  Tensor rstd) {
    Check("rms_norm_forward", {{"x", x}, {"weight", weight}, {"y", y}, {"rstd", rstd}})
        .defined()
        .type(weight, x.type(), kOneType)
        .type(y, x.type(), kOneType)
        .type(rstd, statistics_type(x.type()), kStatType)
        .that(columns(y) == columns(x) && same_rows(x, y) && is_vector(weight, columns(x)) &&
                  rstd.elements() == rows(x),
              "x, y [n, C], weight [C], rstd [n]");
    do_rms_norm_forward(x, weight, epsilon, y, rstd);
}

void Operations::rms_norm_input_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                         const Tensor& rstd, Tensor grad_x, GradWrite write) {
    Check("rms_norm_input_gradient",
          {{"grad_y", grad_y}, {"x", x}, {"weight", weight}, {"rstd", rstd}, {"grad_x", grad_x}})
        .defined()
        .type(grad_y, x.type(), kOneType)
        .type(weight, x.type(), kOneType)
        .type(grad_x, x.type(), kOneType)
        .type(rstd, statistics_type(x.type()), kStatType)
        .that(columns(grad_y) == columns(x) && same_rows(x, grad_y) && columns(grad_x) == columns(x) &&
                  same_rows(x, grad_x) && is_vector(weight, columns(x)) && rstd.elements() == rows(x),
              "grad_y, x, grad_x [n, C], weight [C], rstd [n]");
    do_rms_norm_input_gradient(grad_y, x, weight, rstd, grad_x, write);
}

void Operations::rms_norm_weight_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& rstd,
                                          Tensor grad_weight, GradWrite write) {
    Check("rms_norm_weight_gradient",
          {{"grad_y", grad_y}, {"x", x}, {"rstd", rstd}, {"grad_weight", grad_weight}})
        .defined()
        .type(grad_y, x.type(), kOneType)
        .type(rstd, statistics_type(x.type()), kStatType)
        .type(grad_weight, statistics_type(x.type()), kMainType)
        .that(columns(grad_y) == columns(x) && same_rows(x, grad_y) && is_vector(grad_weight, columns(x)) &&
                  rstd.elements() == rows(x),
              "grad_y, x [n, C], rstd [n], grad_weight [C]");
    do_rms_norm_weight_gradient(grad_y, x, rstd, grad_weight, write);
}

void Operations::gelu_forward(const Tensor& x, Tensor y) {
    Check("gelu_forward", {{"x", x}, {"y", y}})
        .defined()
        .type(y, x.type(), kOneType)
        .that(x.elements() == y.elements(), "both have the same number of elements");
    do_gelu_forward(x, y);
}

void Operations::gelu_input_gradient(const Tensor& grad_y, const Tensor& x, Tensor grad_x) {
    Check("gelu_input_gradient", {{"grad_y", grad_y}, {"x", x}, {"grad_x", grad_x}})
        .defined()
        .type(grad_y, x.type(), kOneType)
        .type(grad_x, x.type(), kOneType)
        .that(x.elements() == grad_y.elements() && x.elements() == grad_x.elements(),
              "all have the same number of elements");
    do_gelu_input_gradient(grad_y, x, grad_x);
}

void Operations::swiglu_forward(const Tensor& gate_up, Tensor y) {
    Check("swiglu_forward", {{"gate_up", gate_up}, {"y", y}})
        .defined()
        .type(y, gate_up.type(), kOneType)
        .that(columns(gate_up) == 2 * columns(y) && same_rows(gate_up, y), "gate_up [n, 2 F], y [n, F]");
    do_swiglu_forward(gate_up, y);
}

void Operations::swiglu_input_gradient(const Tensor& grad_y, const Tensor& gate_up, Tensor grad_gate_up) {
    Check("swiglu_input_gradient", {{"grad_y", grad_y}, {"gate_up", gate_up}, {"grad_gate_up", grad_gate_up}})
        .defined()
        .type(grad_y, gate_up.type(), kOneType)
        .type(grad_gate_up, gate_up.type(), kOneType)
        .that(columns(gate_up) == 2 * columns(grad_y) && same_rows(gate_up, grad_y) &&
                  columns(grad_gate_up) == columns(gate_up) && same_rows(grad_gate_up, gate_up),
              "grad_y [n, F], gate_up, grad_gate_up [n, 2 F]")
        .that(grad_gate_up.data() != gate_up.data() && grad_gate_up.data() != grad_y.data(),
              "the result is none of the inputs");
    do_swiglu_input_gradient(grad_y, gate_up, grad_gate_up);
}

void Operations::rotary(Tensor qkv, std::int64_t heads, const Tensor& table, const Tensor& positions,
                        std::int64_t first_position, RotaryDirection direction) {
    const Check check("rotary", {{"qkv", qkv}, {"table", table}, {"positions", positions}});
    check.defined(1)
        .type(table, statistics_type(qkv.type()), kStatType)
        .type(positions, DType::i32, kPositionType)
        .that(qkv.shape().rank() == 4 && table.shape().rank() == 2, "qkv [T, B, H + 2 G, D], table [P, R]")
        .that(heads >= 0 && heads <= qkv.shape()[2], "at most the heads of qkv are turned")
        .that(columns(table) % 2 == 0 && columns(table) <= columns(qkv), "R is even and at most D");
    if (positions.defined())
        check.that(positions.elements() == qkv.shape()[0] * qkv.shape()[1], "positions [T, B]");
    else
        check.that(first_position >= 0 && first_position + qkv.shape()[0] <= table.shape()[0],
                   "positions first_position ... first_position + T - 1 are rows of the table");
    do_rotary(qkv, heads, table, positions, first_position, direction);
}

void Operations::attention_forward(const Tensor& qkv, const Attention& attention, Tensor out,
                                   Tensor logsumexp) {
    const Check check("attention_forward", {{"qkv", qkv}, {"out", out}, {"logsumexp", logsumexp}});
    check.defined();
    check_attention(check, attention, qkv, out, logsumexp);
    do_attention_forward(qkv, attention, out, logsumexp);
}

void Operations::attention_input_gradient(const Tensor& grad_out, const Tensor& qkv, const Tensor& out,
                                          const Tensor& logsumexp, const Attention& attention,
                                          Tensor grad_qkv) {
    const Check check("attention_input_gradient", {{"grad_out", grad_out},
                                                   {"qkv", qkv},
                                                   {"out", out},
                                                   {"logsumexp", logsumexp},
                                                   {"grad_qkv", grad_qkv}});
    check.defined();
    check_attention(check, attention, qkv, out, logsumexp);
    check.that(grad_out.shape() == out.shape() && grad_qkv.shape() == qkv.shape(),
               "gradients have the shapes of out and qkv");
    check.type(grad_out, qkv.type(), kOneType).type(grad_qkv, qkv.type(), kOneType);
    do_attention_input_gradient(grad_out, qkv, out, logsumexp, attention, grad_qkv);
}

void Operations::bias_dropout_residual(const Tensor& x, const Tensor& bias, const Tensor& residual,
                                       const Dropout& dropout, Tensor out) {
    const Check check("bias_dropout_residual",
                      {{"x", x}, {"out", out}, {"bias", bias}, {"residual", residual}});
    check.defined(2)
        .type(bias, x.type(), kOneType)
        .type(residual, x.type(), kOneType)
        .type(out, x.type(), kOneType)
        .that(x.shape().rank() == 3 && out.shape() == x.shape() &&
                  (!bias.defined() || is_vector(bias, columns(x))) &&
                  (!residual.defined() || residual.shape() == x.shape()),
              "x, residual, out [T, B, C], bias [C]");
    check_dropout(check, dropout);
    do_bias_dropout_residual(x, bias, residual, dropout, out);
}

void Operations::dropout_gradient(const Tensor& grad_out, const Dropout& dropout, Tensor grad_x) {
    const Check check("dropout_gradient", {{"grad_out", grad_out}, {"grad_x", grad_x}});
    check.defined()
        .type(grad_x, grad_out.type(), kOneType)
        .that(grad_out.shape().rank() == 3 && grad_x.shape() == grad_out.shape(),
              "grad_out, grad_x [T, B, C]");
    check_dropout(check, dropout);
    do_dropout_gradient(grad_out, dropout, grad_x);
}

void Operations::cross_entropy_maximum(const Tensor& logits, std::int64_t valid_columns, Tensor maximum) {
    Check("cross_entropy_maximum", {{"logits", logits}, {"maximum", maximum}})
        .defined()
        .type(maximum, statistics_type(logits.type()), kStatType)
        .that(maximum.elements() == rows(logits), "logits [n, V], maximum [n]")
        .that(valid_columns >= 0 && valid_columns <= columns(logits), "valid_columns lies in [0, V]");
    do_cross_entropy_maximum(logits, valid_columns, maximum);
}

void Operations::cross_entropy_sums(const Tensor& logits, std::int64_t valid_columns, const Tensor& targets,
                                    std::int64_t first_row, const Tensor& maximum, Tensor sums) {
    Check("cross_entropy_sums",
          {{"logits", logits}, {"targets", targets}, {"maximum", maximum}, {"sums", sums}})
        .defined()
        .type(targets, DType::i32, kTokenType)
        .type(maximum, statistics_type(logits.type()), kStatType)
        .type(sums, statistics_type(logits.type()), kStatType)
        .that(targets.elements() == rows(logits) && maximum.elements() == rows(logits) &&
                  is_matrix(sums, 2, rows(logits)),
              "logits [n, V], targets [n], maximum [n], sums [2, n]")
        .that(valid_columns >= 0 && valid_columns <= columns(logits), "valid_columns lies in [0, V]");
    do_cross_entropy_sums(logits, valid_columns, targets, first_row, maximum, sums);
}

void Operations::cross_entropy_loss(const Tensor& sums, const Tensor& mask, Tensor loss) {
    Check("cross_entropy_loss", {{"sums", sums}, {"loss", loss}, {"mask", mask}})
        .defined(1)
        .type(loss, sums.type(), kStatType)
        .type(mask, sums.type(), kStatType)
        .that(is_matrix(sums, 2, columns(sums)) && loss.elements() == 1 &&
                  (!mask.defined() || mask.elements() == columns(sums)),
              "sums [2, n], mask [n], loss [1]");
    do_cross_entropy_loss(sums, mask, loss);
}

void Operations::cross_entropy_gradient(Tensor logits, std::int64_t valid_columns, const Tensor& targets,
                                        std::int64_t first_row, const Tensor& maximum, const Tensor& sums,
                                        const Tensor& mask, double factor) {
    Check("cross_entropy_gradient",
          {{"logits", logits}, {"targets", targets}, {"maximum", maximum}, {"sums", sums}, {"mask", mask}})
        .defined(1)
        .type(targets, DType::i32, kTokenType)
        .type(maximum, statistics_type(logits.type()), kStatType)
        .type(sums, statistics_type(logits.type()), kStatType)
        .type(mask, statistics_type(logits.type()), kStatType)
        .that(targets.elements() == rows(logits) && maximum.elements() == rows(logits) &&
                  is_matrix(sums, 2, rows(logits)) && (!mask.defined() || mask.elements() == rows(logits)),
              "logits [n, V], targets [n], maximum [n], sums [2, n], mask [n]")
        .that(valid_columns >= 0 && valid_columns <= columns(logits), "valid_columns lies in [0, V]");
    do_cross_entropy_gradient(logits, valid_columns, targets, first_row, maximum, sums, mask, factor);
}

void Operations::cross_entropy(Tensor logits, std::int64_t valid_columns, const Tensor& targets,
                               const Tensor& mask, double factor, Tensor maximum, Tensor sums, Tensor loss) {
    Check("cross_entropy", {{"logits", logits},
                            {"targets", targets},
                            {"maximum", maximum},
                            {"sums", sums},
                            {"loss", loss},
                            {"mask", mask}})
        .defined(1)
        .type(targets, DType::i32, kTokenType)
        .type(maximum, statistics_type(logits.type()), kStatType)
        .type(sums, statistics_type(logits.type()), kStatType)
        .type(loss, statistics_type(logits.type()), kStatType)
        .type(mask, statistics_type(logits.type()), kStatType)
        .that(targets.elements() == rows(logits) && maximum.elements() == rows(logits) &&
                  is_matrix(sums, 2, rows(logits)) && (!mask.defined() || mask.elements() == rows(logits)) &&
                  loss.elements() == 1,
              "logits [n, V], targets [n], maximum [n], sums [2, n], mask [n], loss [1]")
        .that(valid_columns >= 0 && valid_columns <= columns(logits), "valid_columns lies in [0, V]");
    do_cross_entropy(logits, valid_columns, targets, mask, factor, maximum, sums, loss);
}

void Operations::do_cross_entropy(Tensor logits, std::int64_t valid_columns, const Tensor& targets,
                                  const Tensor& mask, double factor, Tensor maximum, Tensor sums,
                                  Tensor loss) {
    do_cross_entropy_maximum(logits, valid_columns, maximum);
    do_cross_entropy_sums(logits, valid_columns, targets, 0, maximum, sums);
    do_cross_entropy_loss(sums, mask, loss);
    do_cross_entropy_gradient(logits, valid_columns, targets, 0, maximum, sums, mask, factor);
}

void Operations::sum_of_squares(const Tensor& x, Tensor result, GradWrite write) {
    Check("sum_of_squares", {{"x", x}, {"result", result}})
        .defined()
        .that(is_float(x.type()), "x is a float")
        .that(result.elements() == 1 && result.type() == DType::f64, "result is one fp64");
    do_sum_of_squares(x, result, write);
}

void Operations::adam_update(Tensor master, const Tensor& gradient, Tensor moment1, Tensor moment2,
                             Tensor weights, const Tensor& factor, const Adam& adam) {
    const DType type = master.type();
    Check("adam_update", {{"master", master},
                          {"gradient", gradient},
                          {"moment1", moment1},
                          {"moment2", moment2},
                          {"factor", factor},
                          {"weights", weights}})
        .defined(1)
        .that(type == DType::f32 || type == DType::f64, "master weights are fp32 or fp64")
        .that(moment1.type() == type && moment2.type() == type && gradient.type() == type,
              "moments and gradient have the type of the master weights")
        .that(!weights.defined() ||
                  (weights.type() == type || (is_narrow(weights.type()) && type == DType::f32)),
              "weights have the type of the master weights, or bf16 or fp16 beside fp32")
        .that(gradient.elements() == master.elements() && moment1.elements() == master.elements() &&
                  moment2.elements() == master.elements() &&
                  (!weights.defined() || weights.elements() == master.elements()),
              "all have the same number of elements")
        .that(factor.elements() == 1 && factor.type() == DType::f64, "factor is one fp64")
        .that(adam.step >= 1, "steps count from 1");
    do_adam_update(master, gradient, moment1, moment2, weights, factor, adam);
}

} // namespace trireme::backend
