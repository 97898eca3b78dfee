// What the pieces of a pipeline cost against each other, by FLOPs alone: no machine is needed, so a run and
// its plan come to the same split.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/plan/run_setup.hpp"
#include "trireme/topology/placement.hpp"
#include "trireme/topology/schedule.hpp"

namespace trireme::plan {

// FLOPs of a token's forward and backward pass with what is recomputed (a forward pass is a third): of the
// catalogue's parts.
topology::LayerCosts layer_costs(const RunSetup& setup);

// For PipelineSplit::pieces: layers such that the stage that computes most computes least.
std::vector<std::int64_t> balanced_pieces(const RunSetup& setup);

// [stage][chunk], for simulation without a machine; the mean piece takes 1 for each pass. Of the default
// split, which is even, all pieces do.
std::vector<std::vector<topology::PieceCost>> relative_costs(const RunSetup& setup);

} // namespace trireme::plan
