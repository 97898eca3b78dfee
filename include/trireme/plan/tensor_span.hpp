// Tensor-parallel ranks exchange whole activations four times a layer: that wants to stay inside a node.
// Which groups do not, and what that is foreseen to cost.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/plan/machine.hpp"
#include "trireme/plan/run_setup.hpp"

namespace trireme::plan {

struct TensorSpan {
    int groups = 0;     // that lie on several nodes
    int first_rank = 0; // of the first of them, in the world
    int together = 0;   // least number of ranks of such a group that share a node
};
// hosts[world rank]: the name of its node.
TensorSpan tensor_span(const topology::Grid& grid, const std::vector<std::string>& hosts);

// Seconds of a step as it is placed, and with every tensor group inside a node.
struct SpanCost {
    double spanning = 0, inside = 0;
};
// Throws Error (usage) for types that the cost model does not know.
SpanCost span_cost(const RunSetup& setup, const TensorSpan& span, const Machine& machine);

// The preset for a GPU by its name ("NVIDIA H100 80GB HBM3"), if one is of its kind.
std::optional<Machine> machine_for(const std::string& device);

} // namespace trireme::plan
