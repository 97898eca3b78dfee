// The parameters of one linear or norm module as tensors: weights, bias and their main gradients.
#pragma once

#include <string>

#include "trireme/model/parameters.hpp"

namespace trireme::model {

struct Module {
    Tensor weight, bias;           // bias [out] or undefined
    Tensor grad_weight, grad_bias; // main type
};

// A linear module: weight [out, in], bias [out].
inline Module bind_linear(const Parameters& parameters, const std::string& name, std::int64_t out,
                          std::int64_t in) {
    const std::string weight = name + ".weight", bias = name + ".bias";
    return {parameters.weight(weight).reshaped(Shape{out, in}), parameters.weight(bias).reshaped(Shape{out}),
            parameters.gradient(weight).reshaped(Shape{out, in}),
            parameters.gradient(bias).reshaped(Shape{out})};
}

// A norm module: weight and bias [size].
inline Module bind_norm(const Parameters& parameters, const std::string& name, std::int64_t size) {
    return {parameters.weight(name + ".weight").reshaped(Shape{size}),
            parameters.weight(name + ".bias").reshaped(Shape{size}),
            parameters.gradient(name + ".weight").reshaped(Shape{size}),
            parameters.gradient(name + ".bias").reshaped(Shape{size})};
}

} // namespace trireme::model
