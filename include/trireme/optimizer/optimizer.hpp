// From main gradients to new weights: reduction over data ranks, sums over the ranks that saw a part, norm
// with each logical parameter counted once, clipping, AdamW.
//
// The state (fp32 master weights where weights are narrower, both moments; beside bf16 weights only what the
// master weights have beyond them, SplitFloat in dtype.hpp) lives in flat buffers, bucket by
// bucket, like the weights. Sharded (ZeRO-1, Rajbhandari et al. 2020), data rank r of D keeps elements
// [r, r + 1) * length / D of each bucket: gradients are reduce-scattered to it and updated weights gathered
// from it. Bucket lengths divide by D, whatever D is.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "trireme/backend/backend.hpp"
#include "trireme/comm/runtime.hpp"
#include "trireme/memory/arena.hpp"
#include "trireme/memory/plan.hpp"
#include "trireme/model/parameters.hpp"
#include "trireme/model/step_hooks.hpp"

namespace trireme::optimizer {

enum class Sharding : std::uint8_t { none, data_ranks };
// Whether tensor ranks see whole sequences, so that gradients of what they all hold are equal, or parts, so
// that these gradients are to be summed.
enum class SeenSequence : std::uint8_t { whole, part };

// What of the communication over data ranks runs beside the passes: nothing; the reduction of a bucket, from
// its last gradient on; also the gathering of its new weights (sharded only), until a part needs them.
// Buckets, collectives and bits are the same: only the waiting moves.
enum class Overlap : std::uint8_t { none, reduction, reduction_and_gather };

struct OptimizerSetup {
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 0.01; // of parameters that decay, where a step does not say otherwise
    double clip_norm = 1.0;     // 0: no clipping
    Sharding sharding = Sharding::none;
    SeenSequence seen = SeenSequence::whole;
    Overlap overlap = Overlap::none;
};

struct Rates {
    double learning_rate = 0;
    double weight_decay = 0;
};

struct StepResult {
    double gradient_norm = 0; // before clipping
    bool updated = false;     // not, if the norm is not finite: then weights and state are as before
};

// The tensors of the state. master_weights only where weights are narrower than main gradients.
enum class StateKind : std::uint8_t { master_weights, first_moment, second_moment };
inline constexpr int kStateKinds = 3;
inline constexpr std::array<StateKind, kStateKinds> kAllStateKinds{
    StateKind::master_weights, StateKind::first_moment, StateKind::second_moment};

// A box of a logical parameter and its elements in this rank's state, row-major.
struct StatePart {
    topology::Box box;
    Tensor tensor; // flat
    // Where it is defined, the elements are fp32: `tensor`, the bf16 weights, has their upper halves and this
    // what is beyond them, int16 (SplitFloat).
    Tensor rest = {};

    DType type() const { return rest.defined() ? DType::f32 : tensor.type(); }
};

class Optimizer : public model::StepHooks {
  public:
    Optimizer(const OptimizerSetup& setup, const model::Parameters& parameters, const topology::Grid& grid,
              const topology::Coordinates& at, memory::Plan& plan);
    void bind(const memory::Arena& arena, backend::Backend& backend, const comm::ProcessGroups& groups);

    // Master weights of what was drawn: the values as they are, which weights hold rounded. Nothing where
    // there are none, and beyond this rank's ranges.
    void set_master(const model::DrawnPart& drawn);

    // Before the micro-batches of a step, whose first one overwrites the main gradients.
    void begin();
    // Sums main gradients over data ranks: those of a chunk, or bucket by bucket as they are complete.
    void gradient_complete(const model::Part& part) override;
    void gradients_complete(int chunk) override;
    // `gradient_scale` multiplies the gradients first: 1 / loss scale. Returns when the norm is known; a
    // device may still be updating then. Collective over the world.
    StepResult step(const Rates& rates, double gradient_scale);
    // Waits for the weights of this part where they are still being gathered.
    void parameters_needed(const model::Part& part) override;
    void settle(); // waits for all that is in flight
    bool in_flight() const;
    void progress() override;

    bool has(StateKind kind) const { return kind != StateKind::master_weights || has_master_; }
    bool sharded() const { return setup_.sharding == Sharding::data_ranks; }
    // What this rank keeps of one parameter's state: all of its shard, or the part in its range.
    std::vector<StatePart> parts(const model::HeldParameter& held, StateKind kind) const;

    // Good steps so far (Adam's bias correction counts them); saved and restored with the state.
    std::int64_t steps() const { return steps_; }
    void set_steps(std::int64_t steps) { steps_ = steps; }

  private:
    // The state of one bucket: elements `range` of it.
    struct State {
        topology::Interval range;
        std::array<memory::Item, kStateKinds> items;
        std::array<Tensor, kStateKinds> tensors; // [range.size()]
        int parts = 0;                           // of the model, with gradients in this bucket
        int parts_left = 0;                      // that have still to add to them in this step
        comm::Request reduction, gathering;
    };
    std::span<const std::size_t> buckets_of(const model::Part& part) const;
    void start_reduction(std::size_t bucket);
    bool counted(const model::Bucket& bucket) const;
    Tensor gradients(std::size_t bucket, const topology::Interval& run) const;
    Tensor owned_gradients(std::size_t bucket) const;
    std::vector<topology::Interval> shared_runs(std::size_t bucket) const;
    Tensor owned_weights(std::size_t bucket) const;
    void find_squared_norm();
    void update_bucket(std::size_t bucket, const Rates& rates);

    OptimizerSetup setup_;
    const model::Parameters& parameters_;
    bool has_master_;
    bool splits_master_; // the rest beside bf16 weights instead of the whole
    backend::Backend* backend_ = nullptr;
    const comm::ProcessGroups* groups_ = nullptr;
    std::vector<State> states_; // of buckets
    std::map<model::Part, std::vector<std::size_t>> buckets_of_;
    std::vector<std::size_t> forward_order_; // buckets as the next forward pass will want them
    memory::Item outcome_item_;
    Tensor outcome_;               // [2] f64: the two that follow
    Tensor squared_norm_, factor_; // [1] f64
    std::int64_t steps_ = 0;
};

} // namespace trireme::optimizer
