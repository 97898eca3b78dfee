// Sums of an interval of the log.
#include "log_interval.hpp"

#include "trireme/catalogue/catalogue.hpp"

namespace trireme::train {

void LogInterval::add(const StepReport& report, const StepSetup& step, Outcome outcome) {
    ++steps_;
    samples_ += step.global_batch;
    if (outcome == Outcome::good) {
        ++good_steps_;
        loss_sum_ += report.loss;
    } else {
        skipped_loss_ = report.loss;
        bad_steps_ += outcome == Outcome::not_finite ? 1 : 0;
    }
    last_report_ = report;
    last_step_ = step;
}

void LogInterval::fill(IterationLine& line, Clock::time_point now, const EngineSetup& setup) const {
    const double seconds = std::chrono::duration<double>(now - start_).count();
    line.seconds_per_iteration = seconds / static_cast<double>(steps_);
    line.tokens_per_second = static_cast<double>(samples_ * setup.model.sequence) / seconds;
    line.tflops_per_rank = line.tokens_per_second / setup.grid.ranks() *
                           catalogue::flops_per_token(setup.model, catalogue::AttentionFlops::causal) / 1e12;
    line.learning_rate = last_step_.rates.learning_rate;
    line.global_batch = last_step_.global_batch;
    // The mean over good steps; a loss that is not finite is never hidden behind them.
    line.loss =
        bad_steps_ > 0 || good_steps_ == 0 ? skipped_loss_ : loss_sum_ / static_cast<double>(good_steps_);
    line.gradient_norm = last_report_.gradient_norm;
}

} // namespace trireme::train
