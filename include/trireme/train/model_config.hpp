// The shape of a model, from options and back to them.
#pragma once

#include "trireme/catalogue/model_config.hpp"
#include "trireme/options/resolve.hpp"
#include "trireme/tensor/dtype.hpp"

namespace trireme::train {

DType weight_type(options::ParamsDtype type);
catalogue::ModelConfig model_config(const options::Resolved::Model& model, std::int64_t vocabulary);

// The options that give this shape; all others at their defaults.
options::Values model_values(const catalogue::ModelConfig& config, DType type);

} // namespace trireme::train
