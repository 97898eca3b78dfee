// Checks of matrix products, alone and with what follows them.
#include "backend/ops/check.hpp"

namespace trireme::backend {

using namespace checks;

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

} // namespace trireme::backend
