// What a run is, once all options are resolved: the model, the layout, how it is stepped. From this and a
// rank's coordinates follows everything that the rank declares; train::Engine runs it, the planner foresees
// it.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/catalogue/model_config.hpp"
#include "trireme/model/stage_setup.hpp"
#include "trireme/optimizer/optimizer.hpp"
#include "trireme/topology/grid.hpp"
#include "trireme/topology/placement.hpp"
#include "trireme/topology/schedule.hpp"

namespace trireme::plan {

enum class Purpose : std::uint8_t { train, forward_only };

struct RunSetup {
    catalogue::ModelConfig model;
    topology::Grid grid;
    int chunks = 1;
    topology::PipelineSplit split; // of layers over stages and chunks
    topology::ScheduleKind schedule = topology::ScheduleKind::one_f_one_b;
    DType type = DType::f32; // of weights and activations
    std::int64_t micro_batch = 1;
    std::int64_t global_batch = 1;
    std::vector<std::int64_t> other_batches; // global batches that steps may have besides
    std::uint64_t seed = 1234;
    int host_threads = 1; // of this rank, to draw initial weights
    model::Recompute recompute;
    model::SequenceParallel sequence_parallel = model::SequenceParallel::no;
    model::DocumentSetup documents;
    std::int64_t bucket_elements = model::ParameterSetup{}.bucket_elements;
    optimizer::OptimizerSetup optimizer; // `seen` follows from the layout
    Purpose purpose = Purpose::train;

    // Of a step, on one data rank.
    std::int64_t micro_batches() const { return micro_batches(global_batch); }
    std::int64_t micro_batches(std::int64_t batch) const { return batch / (micro_batch * grid.data); }
};

} // namespace trireme::plan
