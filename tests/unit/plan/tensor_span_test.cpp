// Which tensor groups leave a node, and that the foreseen cost is the network's.
#include <gtest/gtest.h>

#include "trireme/plan/tensor_span.hpp"
#include "unit/plan/support.hpp"

namespace trireme::plan {
namespace {

TEST(TensorSpan, BlocksInsideANodeSpanNothing) {
    EXPECT_EQ(tensor_span({.tensor = 2, .data = 2}, {"a", "a", "b", "b"}).groups, 0);
    EXPECT_EQ(tensor_span({.tensor = 4}, {"a", "a", "a", "a"}).groups, 0);
}

TEST(TensorSpan, CountsGroupsAndTheirRanksOnANode) {
    // Dealt out in turn, every group spans, one rank a node.
    const TensorSpan cyclic = tensor_span({.tensor = 2, .data = 2}, {"a", "b", "a", "b"});
    EXPECT_EQ(cyclic.groups, 2);
    EXPECT_EQ(cyclic.first_rank, 0);
    EXPECT_EQ(cyclic.together, 1);
    // Six ranks on nodes of three: the second pair spans.
    const TensorSpan uneven = tensor_span({.tensor = 2, .data = 3}, {"a", "a", "a", "b", "b", "b"});
    EXPECT_EQ(uneven.groups, 1);
    EXPECT_EQ(uneven.first_rank, 2);
    const TensorSpan halves = tensor_span({.tensor = 4}, {"a", "a", "b", "b"});
    EXPECT_EQ(halves.groups, 1);
    EXPECT_EQ(halves.together, 2);
}

// A machine on which nothing but links takes time: NVLink 8 times as fast as two adapters.
TEST(TensorSpan, CostsWhatTheNetworkIsSlower) {
    Machine machine = ideal_machine();
    machine.nvlink_gb_per_s = 160;
    machine.network_gb_per_s = 10;
    RunSetup setup = small_setup(4);
    setup.grid.tensor = 4;
    const SpanCost cost = span_cost(setup, {.groups = 1, .first_rank = 0, .together = 2}, machine);
    EXPECT_NEAR(cost.spanning / cost.inside, 8, 0.01);
}

TEST(TensorSpan, KnowsGpusByTheirNames) {
    EXPECT_EQ(machine_for("CUDA, NVIDIA H200 (GPU 0, 139.8 GiB)").value().name, "h200");
    EXPECT_EQ(machine_for("CUDA, NVIDIA A100-SXM4-80GB (GPU 0)").value().name, "a100-80gb");
    EXPECT_FALSE(machine_for("CUDA, NVIDIA A10 (GPU 0)"));
    EXPECT_FALSE(machine_for("CPU, 2 threads, OpenBLAS 0.3.21 (Haswell)"));
}

} // namespace
} // namespace trireme::plan
