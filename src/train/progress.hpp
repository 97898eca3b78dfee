// Where training stands: the counters that a checkpoint keeps, the schedule of rates and the loss scale. From
// them follows what the next step is; a step that was made is counted here and nowhere else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/checkpoint/checkpoint.hpp"
#include "trireme/optimizer/loss_scale.hpp"
#include "trireme/optimizer/rate_schedule.hpp"
#include "trireme/options/resolve.hpp"
#include "trireme/train/engine.hpp"

namespace trireme::train {

// How a step ended. overflowed: at a loss scale that can still shrink, which says nothing about the model.
enum class Outcome : std::uint8_t { good, overflowed, not_finite };

class Progress {
  public:
    // At iteration 0. The options must outlive it.
    explicit Progress(const options::Resolved& options);

    // Goes on where `saved` stands, as far as the options want that. Returns what differs between the
    // options' schedule of rates and the checkpoint's. Throws Error (checkpoint): rates that it does not
    // understand.
    std::vector<std::string> restore(const checkpoint::State& saved);

    StepSetup next_step() const;
    // Steps of which nothing counts (abandoned ones) are not counted.
    Outcome count(const StepReport& report, const StepSetup& step);

    std::int64_t iteration() const { return state_.iteration; }
    std::int64_t consumed_samples() const { return state_.consumed_samples; }
    std::int64_t skipped_iterations() const { return state_.skipped_iterations; }
    std::int64_t nan_iterations() const { return state_.nan_iterations; }
    std::uint64_t seed() const { return state_.seed; } // of dropout
    const optimizer::LossScale& loss_scale() const { return loss_scale_; }

    // What a checkpoint of now says.
    checkpoint::State state(std::int64_t optimizer_steps, const std::string& layout) const;

  private:
    const options::Resolved* options_; // never null
    checkpoint::State state_;
    optimizer::RateSchedule rates_;
    optimizer::LossScale loss_scale_;
};

} // namespace trireme::train
