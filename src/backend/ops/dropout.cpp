// Checks of dropout and the residual path.
#include "backend/ops/check.hpp"

namespace trireme::backend {

using namespace checks;

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

} // namespace trireme::backend
