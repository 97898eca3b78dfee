// Checks of operations that take elements one by one.
#include "backend/ops/check.hpp"

namespace trireme::backend {

using namespace checks;

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

} // namespace trireme::backend
