// One model in one layout, ready to step: plans memory, takes it, and ties parameters, pipeline and optimizer
// together. The loop of `trireme pretrain`, evaluation, generation and the layout tests all drive this class.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/backend/backend.hpp"
#include "trireme/comm/runtime.hpp"
#include "trireme/memory/plan.hpp"
#include "trireme/model/parameters.hpp"
#include "trireme/optimizer/optimizer.hpp"
#include "trireme/pipeline/executor.hpp"
#include "trireme/plan/run_setup.hpp"
#include "trireme/topology/placement.hpp"
#include "trireme/topology/schedule.hpp"

namespace trireme::train {

using plan::Purpose;
using EngineSetup = plan::RunSetup;

struct StepSetup {
    optimizer::Rates rates;
    double loss_scale = 1;
    std::int64_t global_batch = 1; // that of the engine's setup, or one of its other batches
};

struct StepReport {
    double loss = 0;          // mean over the tokens of the global batch whose loss counts; 0: none does
    double gradient_norm = 0; // before clipping
    bool updated = false;     // not, if loss or gradients are not finite
    bool abandoned = false;   // left by the gate: no weight has changed, and the numbers above mean nothing
};

// Losses of tokens, over all data ranks.
struct TokenLosses {
    double sum = 0;
    double tokens = 0; // whose loss counts
    double mean() const { return tokens > 0 ? sum / tokens : 0; }
};

class Engine {
  public:
    // Collective over groups.world, as all that follows. Throws Error (device) on all ranks if memory is
    // short on any.
    Engine(const EngineSetup& setup, comm::ProcessGroups groups, backend::Backend& backend);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    void initialise_weights();

    // Runs every piece of this rank once on random tokens, without messages of the pipeline (see
    // pipeline::Executor::rehearse()). Results are dropped; weights and optimizer stay. On a GPU each kind of
    // pass is rehearsed before its first use.
    void rehearse(model::Mode mode);
    // Finds the fastest way to compute each shape that `known`, the choices of an earlier run, does not hold,
    // by rehearsing training. The choices of the lowest rank that has a shape serve all ranks. Call it when
    // weights are set. Returns what was found, as lines of text; none on a CPU.
    std::string tune(const std::string& known = {});

    // One optimizer step.
    StepReport train_step(pipeline::BatchSource& batches, const StepSetup& step,
                          pipeline::StepGate* gate = nullptr);
    // The same over the setup's global batch, with its weight decay.
    StepReport train_step(pipeline::BatchSource& batches, double learning_rate,
                          pipeline::StepGate* gate = nullptr);
    // A step without its end: no sum over data ranks, no update. What it leaves in the main gradients and the
    // loss is this rank's own.
    void forward_and_backward(pipeline::BatchSource& batches, const StepSetup& step,
                              model::Probe* probe = nullptr);
    // This rank's own sum of token losses in the last step; nothing where another rank has it, too, or there
    // is none.
    std::optional<double> own_loss();
    Tensor own_loss_tensor() const; // [1] stat
    // Of `micro_batches` micro-batches of each data rank.
    TokenLosses evaluate(pipeline::BatchSource& batches, std::int64_t micro_batches);
    // Logits after position `position` of row 0 of one micro-batch, over the real vocabulary, on every rank.
    std::vector<double> infer(pipeline::BatchSource& batches, std::int64_t position);

    // Waits for all that is in flight between data ranks. An engine whose work is done settles before it
    // goes.
    void settle();

    bool needs_tokens() const; // whether this rank's steps load tokens at all
    const EngineSetup& setup() const;
    const memory::Plan& plan() const;
    const comm::ProcessGroups& groups() const;
    const topology::Placement& placement() const;
    const topology::Schedule& schedule() const;
    model::Parameters& parameters();   // once weights that are still being gathered have come
    optimizer::Optimizer& optimizer(); // Purpose::train only

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trireme::train
