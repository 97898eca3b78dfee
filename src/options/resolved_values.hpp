// Pieces of Resolved from checked values, for those who need no whole one. Private to options.
#pragma once

#include "trireme/options/resolve.hpp"

namespace trireme::options {

// Valid once check_model() and check_shape() have found nothing.
Resolved::Model model_of(const Values& values);
ParamsDtype params_dtype_of(const Values& values);

// Of --save-stripe-size, as lfs reads it: "4M" is 4 MiB. Nothing if Lustre has no such stripes.
std::optional<std::int64_t> stripe_bytes(std::string_view text);

} // namespace trireme::options
