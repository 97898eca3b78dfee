// One micro-batch, one optimizer step, one evaluation, on a dry backend and in dry groups.
#include "plan/dry_step.hpp"

#include "trireme/backend/dry.hpp"
#include "trireme/comm/dry.hpp"

namespace trireme::plan {
namespace {

// All layers have the same shapes: one in each piece that has any shows them.
RunSetup one_layer_a_piece(const RunSetup& setup) {
    RunSetup small = setup;
    small.model.layers = 0;
    small.split = {};
    const topology::Placement placement = placement_of(setup);
    for (int chunk = 0; chunk < placement.chunks(); ++chunk)
        for (const std::vector<topology::Interval>& stage : placement.layers) {
            const std::int64_t layers = stage[static_cast<std::size_t>(chunk)].empty() ? 0 : 1;
            small.split.pieces.push_back(layers);
            small.model.layers += layers;
        }
    return small;
}

} // namespace

DryBatches::DryBatches(const RunSetup& setup)
    : sequence_(setup.model.sequence), micro_batch_(setup.micro_batch),
      tokens_(static_cast<std::size_t>(sequence_ * micro_batch_)),
      marks_(setup.documents, sequence_, micro_batch_, statistics_type(setup.type)) {}

model::MicroBatch DryBatches::load(std::int64_t number) {
    model::MicroBatch batch{number, 0, Tensor(std::span(tokens_), Shape{sequence_, micro_batch_}),
                            Tensor(std::span(tokens_), Shape{sequence_ * micro_batch_})};
    marks_.mark(batch);
    return batch;
}

std::int64_t dry_scratch_bytes(const RunSetup& setup, const topology::Coordinates& at, const DeviceKind& on) {
    backend::DryBackend backend(on.device, on.threads);
    const comm::ProcessGroups groups = comm::make_dry_groups(setup.grid, at, nullptr);

    RunSetup small = one_layer_a_piece(setup);
    small.global_batch = setup.micro_batch * setup.grid.data;
    small.other_batches.clear();
    memory::Plan plan;
    RankParts parts(small, at, schedule_of(small), plan);
    const memory::Arena arena(plan, backend);
    parts.parameters.bind(arena);
    parts.executor.bind(arena, parts.parameters, {&backend, groups.tensor.get()}, *groups.pipeline);
    DryBatches batches(small);
    model::StepHooks hooks; // nobody listens
    parts.executor.forward_only(batches, 1, model::Mode::evaluate, hooks);
    if (setup.purpose == Purpose::forward_only)
        return backend.scratch_bytes();
    parts.executor.train(batches, 1, {.hooks = &hooks});

    memory::Plan state_plan; // the optimizer's operations take whole buckets
    model::Parameters parameters(parameter_setup(setup, at), state_plan);
    optimizer::Optimizer optimizer(optimizer_setup(setup), parameters, setup.grid, at, state_plan);
    const memory::Arena state_arena(state_plan, backend);
    parameters.bind(state_arena);
    optimizer.bind(state_arena, backend, groups);
    optimizer.begin();
    optimizer.step({}, 1);
    return backend.scratch_bytes();
}

} // namespace trireme::plan
