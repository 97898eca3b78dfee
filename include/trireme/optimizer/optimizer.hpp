// From main gradients to new weights: reduction over data ranks, sum of the two copies of tied embeddings,
// norm with each logical parameter counted once, clipping, AdamW. The moments live in flat buffers, bucket by
// bucket, like the weights.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trireme/backend/backend.hpp"
#include "trireme/comm/runtime.hpp"
#include "trireme/memory/arena.hpp"
#include "trireme/memory/plan.hpp"
#include "trireme/model/parameters.hpp"
#include "trireme/model/step_hooks.hpp"

namespace trireme::optimizer {

struct OptimizerSetup {
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 0.01; // of parameters that decay
    double clip_norm = 1.0;     // 0: no clipping
};

struct StepResult {
    double gradient_norm = 0; // before clipping
    bool updated = false;     // not, if the norm is not finite: then weights and moments are as before
};

class Optimizer : public model::StepHooks {
  public:
    Optimizer(const OptimizerSetup& setup, const model::Parameters& parameters, memory::Plan& plan);
    void bind(const memory::Arena& arena, backend::Backend& backend, const comm::ProcessGroups& groups);

    // Before the micro-batches of a step: main gradients become zero.
    void begin();
    // Sums the chunk's main gradients over data ranks.
    void gradients_complete(int chunk) override;
    // `gradient_scale` multiplies the gradients first (1 unless tokens are masked). Collective over the
    // model.
    StepResult step(double learning_rate, double gradient_scale);

    // First and second moments of one parameter, in its shard's shape; for checkpoints.
    Tensor first_moment(const model::HeldParameter& held) const;
    Tensor second_moment(const model::HeldParameter& held) const;
    // Good steps so far (Adam's bias correction counts them); saved and restored with the moments.
    std::int64_t steps() const { return steps_; }
    void set_steps(std::int64_t steps) { steps_ = steps; }

  private:
    bool counted(const model::Bucket& bucket) const;
    void update_bucket(std::size_t bucket, double learning_rate);

    OptimizerSetup setup_;
    const model::Parameters& parameters_;
    backend::Backend* backend_ = nullptr;
    const comm::ProcessGroups* groups_ = nullptr;
    std::vector<memory::Item> first_items_, second_items_;
    std::vector<Tensor> first_, second_; // [elements of the bucket]
    memory::Item norm_item_, factor_item_;
    Tensor squared_norm_, factor_; // [1] f64
    std::int64_t steps_ = 0;
};

} // namespace trireme::optimizer
