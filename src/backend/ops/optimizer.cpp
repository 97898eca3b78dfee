// Checks of norms and updates.
#include "backend/ops/check.hpp"

namespace trireme::backend {

using namespace checks;

void Operations::sum_of_squares(const Tensor& x, Tensor result, GradWrite write) {
    Check("sum_of_squares", {{"x", x}, {"result", result}})
        .defined()
        .that(is_float(x.type()), "x is a float")
        .that(result.elements() == 1 && result.type() == DType::f64, "result is one fp64");
    do_sum_of_squares(x, result, write);
}

void Operations::update_factor(const Tensor& squared_norm, const FactorRule& rule, Tensor factor) {
    Check("update_factor", {{"squared_norm", squared_norm}, {"factor", factor}})
        .defined()
        .that(squared_norm.elements() == 1 && squared_norm.type() == DType::f64, "squared_norm is one fp64")
        .that(factor.elements() == 1 && factor.type() == DType::f64, "factor is one fp64")
        .that(rule.clip_norm >= 0, "clip_norm is not negative");
    do_update_factor(squared_norm, rule, factor);
}

void Operations::adam_update(Tensor master, const Tensor& gradient, Tensor moment1, Tensor moment2,
                             Tensor weights, const Tensor& factor, const Adam& adam) {
    const bool split = master.type() == DType::i16;
    const DType type = split ? DType::f32 : master.type();
    Check("adam_update", {{"master", master},
                          {"gradient", gradient},
                          {"moment1", moment1},
                          {"moment2", moment2},
                          {"factor", factor},
                          {"weights", weights}})
        .defined(1)
        .that(type == DType::f32 || type == DType::f64,
              "master weights are fp32 or fp64, or the rest of fp32")
        .that(moment1.type() == type && moment2.type() == type && gradient.type() == type,
              "moments and gradient have the type of the master weights")
        .that(!split || (weights.defined() && weights.type() == DType::bf16),
              "the rest of master weights goes with bf16 weights")
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
