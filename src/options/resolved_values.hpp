// Pieces of Resolved from checked values, for those who need no whole one. Private to options.
#pragma once

#include "trireme/options/resolve.hpp"

namespace trireme::options {

// Valid once check_model() and check_shape() have found nothing.
Resolved::Model model_of(const Values& values);
ParamsDtype params_dtype_of(const Values& values);

} // namespace trireme::options
