// `trireme preflight`, from its options.
#pragma once

#include <string>
#include <vector>

#include "trireme/comm/runtime.hpp"
#include "trireme/options/preflight.hpp"

namespace trireme {

// Collective over the world; the exit code.
int run_preflight(const std::vector<std::string>& arguments, const options::Environment& environment,
                  comm::Runtime& runtime);

} // namespace trireme
