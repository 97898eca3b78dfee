// Checks of GELU and SwiGLU.
#include "backend/ops/check.hpp"

namespace trireme::backend {

using namespace checks;

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

} // namespace trireme::backend
