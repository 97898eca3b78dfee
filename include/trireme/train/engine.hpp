// One model in one layout, ready to step: plans memory, takes it, and ties parameters, pipeline and optimizer
// together. The loop of `trireme pretrain`, evaluation, generation and the layout tests all drive this class.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "trireme/backend/backend.hpp"
#include "trireme/catalogue/model_config.hpp"
#include "trireme/comm/runtime.hpp"
#include "trireme/memory/plan.hpp"
#include "trireme/model/parameters.hpp"
#include "trireme/model/stage_setup.hpp"
#include "trireme/optimizer/optimizer.hpp"
#include "trireme/pipeline/executor.hpp"
#include "trireme/topology/schedule.hpp"

namespace trireme::train {

enum class Purpose : std::uint8_t { train, forward_only };

struct EngineSetup {
    catalogue::ModelConfig model;
    topology::Grid grid;
    int chunks = 1;
    topology::ScheduleKind schedule = topology::ScheduleKind::one_f_one_b;
    DType type = DType::f32; // of weights and activations
    std::int64_t micro_batch = 1;
    std::int64_t global_batch = 1;
    std::uint64_t seed = 1234;
    model::Recompute recompute;
    model::SequenceParallel sequence_parallel = model::SequenceParallel::no;
    optimizer::OptimizerSetup optimizer; // `seen` follows from the layout
    Purpose purpose = Purpose::train;

    std::int64_t micro_batches() const {
        return global_batch / (micro_batch * grid.data);
    } // a step, on one data rank
};

struct StepReport {
    double loss = 0;          // mean over the tokens of the global batch
    double gradient_norm = 0; // before clipping
    bool updated = false;     // not, if loss or gradients are not finite
    bool abandoned = false;   // left by the gate: no weight has changed, and the numbers above mean nothing
};

// The memory of one rank, declared without taking it: what `trireme plan` prints and a run takes.
class Engine {
  public:
    // Collective over groups.world, as all that follows. Throws Error (device) on all ranks if memory is
    // short on any.
    Engine(const EngineSetup& setup, comm::ProcessGroups groups, backend::Backend& backend);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    void initialise_weights();

    // Finds the fastest way to compute each shape by running one step on random tokens, whose results are
    // dropped; weights and optimizer stay. The choices of the lowest rank that has a shape serve all ranks.
    // Call it when weights are set. Returns the choices as text (none on a CPU); given those of an earlier
    // run, takes them and runs nothing.
    std::string tune(const std::string& known = {});

    // One optimizer step over micro_batches() micro-batches.
    StepReport train_step(pipeline::BatchSource& batches, double learning_rate,
                          pipeline::StepGate* gate = nullptr);
    // A step without its end: no sum over data ranks, no update. What it leaves in the main gradients and the
    // loss is this rank's own.
    void forward_and_backward(pipeline::BatchSource& batches, model::Probe* probe = nullptr);
    // This rank's own sum of token losses in the last step; nothing where another rank has it, too, or there
    // is none.
    std::optional<double> own_loss();
    Tensor own_loss_tensor() const; // [1] stat
    // Mean token loss over `micro_batches` micro-batches of each data rank.
    double evaluate(pipeline::BatchSource& batches, std::int64_t micro_batches);
    // Logits after position `position` of row 0 of one micro-batch, over the real vocabulary, on every rank.
    std::vector<double> infer(pipeline::BatchSource& batches, std::int64_t position);

    const EngineSetup& setup() const;
    const memory::Plan& plan() const;
    const comm::ProcessGroups& groups() const;
    const topology::Placement& placement() const;
    const topology::Schedule& schedule() const;
    model::Parameters& parameters();
    optimizer::Optimizer& optimizer(); // Purpose::train only

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trireme::train
