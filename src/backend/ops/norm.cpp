// Checks of layer norm and RMS norm.
#include "backend/ops/check.hpp"

namespace trireme::backend {

using namespace checks;

namespace {

void check_layer_norm_input(const char* operation, const Tensor& grad_y, const Tensor& x,
                            const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                            const Tensor& grad_x) {
    Check(operation, {{"grad_y", grad_y},
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
}

void check_layer_norm_weights(const char* operation, const Tensor& grad_y, const Tensor& x,
                              const Tensor& mean, const Tensor& rstd, const Tensor& grad_weight,
                              const Tensor& grad_bias) {
    Check(operation, {{"grad_y", grad_y},
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
}

void check_rms_norm_input(const char* operation, const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                          const Tensor& rstd, const Tensor& grad_x) {
    Check(operation, {{"grad_y", grad_y}, {"x", x}, {"weight", weight}, {"rstd", rstd}, {"grad_x", grad_x}})
        .defined()
        .type(grad_y, x.type(), kOneType)
        .type(weight, x.type(), kOneType)
        .type(grad_x, x.type(), kOneType)
        .type(rstd, statistics_type(x.type()), kStatType)
        .that(columns(grad_y) == columns(x) && same_rows(x, grad_y) && columns(grad_x) == columns(x) &&
                  same_rows(x, grad_x) && is_vector(weight, columns(x)) && rstd.elements() == rows(x),
              "grad_y, x, grad_x [n, C], weight [C], rstd [n]");
}

void check_rms_norm_weights(const char* operation, const Tensor& grad_y, const Tensor& x, const Tensor& rstd,
                            const Tensor& grad_weight) {
    Check(operation, {{"grad_y", grad_y}, {"x", x}, {"rstd", rstd}, {"grad_weight", grad_weight}})
        .defined()
        .type(grad_y, x.type(), kOneType)
        .type(rstd, statistics_type(x.type()), kStatType)
        .type(grad_weight, statistics_type(x.type()), kMainType)
        .that(columns(grad_y) == columns(x) && same_rows(x, grad_y) && is_vector(grad_weight, columns(x)) &&
                  rstd.elements() == rows(x),
              "grad_y, x [n, C], rstd [n], grad_weight [C]");
}

} // namespace

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
    check_layer_norm_input("layer_norm_input_gradient", grad_y, x, weight, mean, rstd, grad_x);
    do_layer_norm_input_gradient(grad_y, x, weight, mean, rstd, grad_x, write);
}

void Operations::layer_norm_weight_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& mean,
                                            const Tensor& rstd, Tensor grad_weight, Tensor grad_bias,
                                            GradWrite write) {
    check_layer_norm_weights("layer_norm_weight_gradient", grad_y, x, mean, rstd, grad_weight, grad_bias);
    do_layer_norm_weight_gradient(grad_y, x, mean, rstd, grad_weight, grad_bias, write);
}

void Operations::layer_norm_gradients(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                      const Tensor& mean, const Tensor& rstd, Tensor grad_x, GradWrite write,
                                      const NormWeightGradients& of_weights) {
    check_layer_norm_input("layer_norm_gradients", grad_y, x, weight, mean, rstd, grad_x);
    check_layer_norm_weights("layer_norm_gradients", grad_y, x, mean, rstd, of_weights.weight,
                             of_weights.bias);
    do_layer_norm_gradients(grad_y, x, weight, mean, rstd, grad_x, write, of_weights);
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
    check_rms_norm_input("rms_norm_input_gradient", grad_y, x, weight, rstd, grad_x);
    do_rms_norm_input_gradient(grad_y, x, weight, rstd, grad_x, write);
}

void Operations::rms_norm_weight_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& rstd,
                                          Tensor grad_weight, GradWrite write) {
    check_rms_norm_weights("rms_norm_weight_gradient", grad_y, x, rstd, grad_weight);
    do_rms_norm_weight_gradient(grad_y, x, rstd, grad_weight, write);
}

void Operations::rms_norm_gradients(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                    const Tensor& rstd, Tensor grad_x, GradWrite write,
                                    const NormWeightGradients& of_weights) {
    check_rms_norm_input("rms_norm_gradients", grad_y, x, weight, rstd, grad_x);
    check_rms_norm_weights("rms_norm_gradients", grad_y, x, rstd, of_weights.weight);
    do_rms_norm_gradients(grad_y, x, weight, rstd, grad_x, write, of_weights);
}

} // namespace trireme::backend
