// Declares a rank, and finds the scratch of its operations by a step of one micro-batch on a dry backend.
#include "trireme/plan/declared_rank.hpp"

#include <utility>

#include "plan/dry_step.hpp"

namespace trireme::plan {

model::ParameterSetup parameter_setup(const RunSetup& setup, const topology::Coordinates& at) {
    model::ParameterSetup parameters;
    parameters.config = setup.model;
    parameters.grid = setup.grid;
    parameters.at = at;
    parameters.placement = placement_of(setup);
    parameters.weight_type = setup.type;
    parameters.gradient_type = statistics_type(setup.type);
    parameters.bucket_elements = setup.bucket_elements;
    return parameters;
}

optimizer::OptimizerSetup optimizer_setup(const RunSetup& setup) {
    optimizer::OptimizerSetup result = setup.optimizer;
    const bool part = setup.sequence_parallel == model::SequenceParallel::yes && setup.grid.tensor > 1;
    result.seen = part ? optimizer::SeenSequence::part : optimizer::SeenSequence::whole;
    return result;
}

topology::Placement placement_of(const RunSetup& setup) {
    return topology::place_layers(setup.model.layers, setup.grid.pipeline, setup.chunks, setup.split);
}

topology::Schedule schedule_of(const RunSetup& setup) {
    if (setup.purpose == Purpose::forward_only)
        return topology::make_forward_schedule(setup.grid.pipeline, 1, setup.chunks);
    return topology::make_schedule(setup.schedule, setup.grid.pipeline,
                                   static_cast<int>(setup.micro_batches()), setup.chunks);
}

model::StageSetup stage_setup(const RunSetup& setup, const topology::Coordinates& at) {
    model::StageSetup stage;
    stage.config = setup.model;
    stage.grid = setup.grid;
    stage.at = at;
    stage.type = setup.type;
    stage.micro_batch = setup.micro_batch;
    stage.seed = setup.seed;
    stage.recompute = setup.recompute;
    stage.sequence_parallel = setup.sequence_parallel;
    stage.documents = setup.documents;
    return stage;
}

namespace {

// Micro-batches of a step with each of the other batches.
std::vector<int> other_micro_batches(const RunSetup& setup) {
    std::vector<int> counts;
    if (setup.purpose == Purpose::train)
        for (const std::int64_t batch : setup.other_batches)
            counts.push_back(static_cast<int>(setup.micro_batches(batch)));
    return counts;
}

} // namespace

RankParts::RankParts(const RunSetup& setup, const topology::Coordinates& at, topology::Schedule schedule,
                     memory::Plan& plan)
    : parameters(parameter_setup(setup, at), plan),
      executor(stage_setup(setup, at), parameters.setup().placement, std::move(schedule), plan,
               other_micro_batches(setup)) {
    if (setup.purpose == Purpose::train)
        optimizer.emplace(optimizer_setup(setup), parameters, setup.grid, at, plan);
}

DeclaredRank::DeclaredRank(const RunSetup& setup, const topology::Coordinates& at, const DeviceKind& on,
                           topology::Schedule schedule)
    : parts(setup, at, std::move(schedule), plan), scratch_bytes(dry_scratch_bytes(setup, at, on)) {
    using memory::Category;
    plan.count(Category::workspace, "scratch of operations", scratch_bytes);
    plan.count(Category::communication, "buffers of communicators",
               comm::ProcessGroups::scratch_bytes(setup.grid, at, on.device));
}

} // namespace trireme::plan
