// Sums over the steps since the last line of the log, and the numbers of the next line that come from them.
#pragma once

#include <cstdint>

#include "clock.hpp"
#include "progress.hpp"
#include "trireme/train/engine.hpp"
#include "trireme/train/log_line.hpp"

namespace trireme::train {

class LogInterval {
  public:
    explicit LogInterval(Clock::time_point start = Clock::now()) : start_(start) {}

    void add(const StepReport& report, const StepSetup& step, Outcome outcome);
    // What has just been done beside steps (an evaluation, a save) is not part of their time.
    void leave_out(Clock::duration time) { start_ += time; }

    // After at least one step: what is known of all the steps (speed, the mean loss) and of the last one.
    void fill(IterationLine& line, Clock::time_point now, const EngineSetup& setup) const;

  private:
    Clock::time_point start_;
    std::int64_t steps_ = 0, samples_ = 0, good_steps_ = 0, bad_steps_ = 0;
    double loss_sum_ = 0;     // of good steps
    double skipped_loss_ = 0; // of the last step that was not good
    StepReport last_report_;
    StepSetup last_step_;
};

} // namespace trireme::train
