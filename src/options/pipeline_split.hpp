// What the options say of how layers are split over stages and model chunks.
#pragma once

#include <string>

#include "trireme/options/resolve.hpp"
#include "trireme/options/values.hpp"

namespace trireme::options {

// `wrong`: what cannot be read of --pipeline-model-parallel-layout; "" if nothing. Needs the number of
// layers.
struct AskedSplit {
    topology::PipelineSplit split;
    std::int64_t chunks = 1;
    LayerSplit layers = LayerSplit::as_said;
    std::string wrong;
};
AskedSplit read_split(const Values& values);

} // namespace trireme::options
