// One rank of a run, declared: its parameters, pipeline and optimizer, and the plan of every byte that they,
// its communicators and the operations of its backend will take. Nothing is allocated and no other rank is
// needed, so a run declares its own rank by this before it takes memory, and `trireme plan` any rank of any
// layout. Planned is what is taken: the allocator of a run counts the same number.
#pragma once

#include <optional>

#include "trireme/backend/backend.hpp"
#include "trireme/memory/plan.hpp"
#include "trireme/model/parameters.hpp"
#include "trireme/optimizer/optimizer.hpp"
#include "trireme/pipeline/executor.hpp"
#include "trireme/plan/run_setup.hpp"
#include "trireme/topology/placement.hpp"
#include "trireme/topology/schedule.hpp"

namespace trireme::plan {

topology::Placement placement_of(const RunSetup& setup);
topology::Schedule schedule_of(const RunSetup& setup);
model::StageSetup stage_setup(const RunSetup& setup, const topology::Coordinates& at);
model::ParameterSetup parameter_setup(const RunSetup& setup, const topology::Coordinates& at);
optimizer::OptimizerSetup optimizer_setup(const RunSetup& setup);

// Where a rank computes: what its operations need beside their tensors depends on it.
struct DeviceKind {
    backend::Device device = backend::Device::cpu;
    int threads = 1;
};

// What a rank computes with; its memory is declared in a plan that somebody else keeps.
struct RankParts {
    RankParts(const RunSetup& setup, const topology::Coordinates& at, topology::Schedule schedule,
              memory::Plan& plan);
    RankParts(const RankParts&) = delete;
    RankParts& operator=(const RankParts&) = delete;

    model::Parameters parameters;
    pipeline::Executor executor;
    std::optional<optimizer::Optimizer> optimizer; // Purpose::train only
};

struct DeclaredRank {
    // `schedule`: schedule_of(setup), which all ranks share.
    DeclaredRank(const RunSetup& setup, const topology::Coordinates& at, const DeviceKind& on,
                 topology::Schedule schedule);
    DeclaredRank(const DeclaredRank&) = delete;
    DeclaredRank& operator=(const DeclaredRank&) = delete;

    memory::Plan plan;
    RankParts parts;
    std::int64_t scratch_bytes; // for Backend::reserve_scratch(); counted in the plan
};

} // namespace trireme::plan
