// Which transformer layers each pipeline stage (and model chunk) owns.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/topology/box.hpp"

namespace trireme::topology {

// layers[stage][chunk] is the interval of global layer numbers. Chunk c of stage s comes after chunk c of
// stage s - 1 and before chunk c + 1 of stage 0 (Megatron's interleaved order). The embedding belongs to
// (stage 0, chunk 0), the head to (last stage, last chunk).
struct Placement {
    std::vector<std::vector<Interval>> layers;
    int stages() const { return static_cast<int>(layers.size()); }
    int chunks() const { return static_cast<int>(layers.front().size()); }
};

// Every (stage, chunk) gets floor(layers / (stages * chunks)) layers; the remaining ones go one each to the
// middle pieces first (1, 2, ... in model order), then to the first, then to the last, since first and last
// carry embedding and head. Example: 7 layers over 4 stages -> 2 + 2 + 2 + 1 (pieces 1, 2, then 0). Requires
// layers >= stages * chunks.
Placement place_layers(std::int64_t layers, int stages, int chunks);

} // namespace trireme::topology
