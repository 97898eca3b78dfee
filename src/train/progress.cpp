// Counts steps.
#include "progress.hpp"

#include <cmath>

#include "configure.hpp"

namespace trireme::train {

Progress::Progress(const options::Resolved& options)
    : options_(&options), rates_(rate_schedule(options)), loss_scale_(train::loss_scale(options)) {
    state_.seed = options.training.seed;
}

// The schedule of rates follows the options unless the user wants the checkpoint's.
std::vector<std::string> Progress::restore(const checkpoint::State& saved) {
    state_ = saved;
    if (!options_->checkpoint.load_rng)
        state_.seed = options_->training.seed;
    if (saved.loss_scale)
        loss_scale_.restore(*saved.loss_scale);
    const bool take = options_->optimizer.rates_from == options::RatesFrom::checkpoint;
    if (saved.rates.empty() && !take)
        return {}; // written by a version that did not keep them
    const optimizer::RateSchedule theirs = optimizer::rate_schedule_from_text(saved.rates);
    std::vector<std::string> changed = optimizer::differences(rates_, theirs);
    if (take)
        rates_ = theirs;
    return changed;
}

StepSetup Progress::next_step() const {
    return {.rates = rates_.at(state_.scheduled_samples),
            .loss_scale = loss_scale_.value(),
            .global_batch = options_->batch.schedule.at(state_.consumed_samples)};
}

Outcome Progress::count(const StepReport& report, const StepSetup& step) {
    const Outcome outcome = report.updated && std::isfinite(report.loss)  ? Outcome::good
                            : !report.updated && loss_scale_.can_shrink() ? Outcome::overflowed
                                                                          : Outcome::not_finite;
    loss_scale_.update(!report.updated);
    ++state_.iteration;
    state_.consumed_samples += step.global_batch;
    if (outcome == Outcome::good)
        state_.scheduled_samples += step.global_batch;
    if (outcome == Outcome::not_finite)
        ++state_.nan_iterations;
    if (!report.updated)
        ++state_.skipped_iterations;
    return outcome;
}

checkpoint::State Progress::state(std::int64_t optimizer_steps, const std::string& layout) const {
    checkpoint::State now = state_;
    now.optimizer_steps = optimizer_steps;
    now.rates = optimizer::to_text(rates_);
    if (loss_scale_.dynamic())
        now.loss_scale = loss_scale_.state();
    now.options = options::to_config(options_->values, options_->sources);
    now.layout = layout;
    return now;
}

} // namespace trireme::train
