// The parameters of one module as tensors: weights, bias and their main gradients; and the norm, whose kind
// is the model's.
#pragma once

#include <string>

#include "trireme/model/parameters.hpp"
#include "trireme/model/stage_setup.hpp"

namespace trireme::model {

// What embedding and layers know of a micro-batch beside its activations.
struct BatchMarks {
    std::int64_t first_sample = 0; // consumed-sample number of row 0
    Tensor documents = {};         // [T, B] i32, undefined where attention crosses documents
    Tensor positions = {};         // [T, B] i32, undefined where positions count from the start of the sample
};

struct Module {
    Tensor weight, bias;           // bias [out] or undefined
    Tensor grad_weight, grad_bias; // main type
};

enum class HasBias : std::uint8_t { no, yes };

// weight [out, in] or [out], bias [out].
inline Module bind_module(const Parameters& parameters, const std::string& name, const Shape& shape,
                          HasBias has_bias) {
    const std::string weight = name + ".weight", bias = name + ".bias";
    Module module;
    module.weight = parameters.weight(weight).reshaped(shape);
    module.grad_weight = parameters.gradient(weight).reshaped(shape);
    if (has_bias == HasBias::yes) {
        module.bias = parameters.weight(bias).reshaped(Shape{shape[0]});
        module.grad_bias = parameters.gradient(bias).reshaped(Shape{shape[0]});
    }
    return module;
}

// LayerNorm or RMSNorm over the last axis, outside tensor-parallel regions. x, y [Ts, B, C]; mean (LayerNorm
// only) and rstd [ns] stat.
class Norm {
  public:
    void bind(const Parameters& parameters, const std::string& name, const StageSetup& setup,
              backend::Backend& backend);

    void forward(const Tensor& x, Tensor y, Tensor mean, Tensor rstd) const;
    void input_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                        Tensor grad_x, backend::GradWrite write) const;
    void weight_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                         backend::GradWrite write) const;
    // Both: grad_x [Ts, B, C] is written or added to (write), the weights' main gradients too (weight_write).
    void gradients(const Tensor& grad_y, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                   Tensor grad_x, backend::GradWrite write, backend::GradWrite weight_write) const;

  private:
    Module module_;
    bool rms_ = false;
    double epsilon_ = 0;
    backend::Backend* backend_ = nullptr;
};

} // namespace trireme::model
