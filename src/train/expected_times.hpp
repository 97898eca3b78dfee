// How long steps, evaluations and saves of this run take, as far as it has measured them: what decisions
// about the time left go by (stop.hpp).
#pragma once

#include <algorithm>
#include <cstdint>

#include "stop.hpp"
#include "trireme/train/engine.hpp"

namespace trireme::train {

class ExpectedTimes {
  public:
    // first_save_seconds: of a save, as long as none was measured.
    explicit ExpectedTimes(double first_save_seconds) : first_save_(first_save_seconds) {}

    // A single slow one is forgotten by and by; of saves the longest counts.
    void step_took(double seconds) { step_ = std::max(seconds, 0.9 * step_); }
    void evaluation_took(double seconds) { evaluation_ = std::max(seconds, 0.9 * evaluation_); }
    void save_took(double seconds) { save_ = std::max(save_, seconds); }

    Needs step() const { return {step_, save()}; }
    Needs step_and_evaluation() const { return {step_ + evaluation_, save()}; }
    Needs evaluation(double share) const { return {share * evaluation_, save()}; }

  private:
    double save() const { return save_ > 0 ? save_ : first_save_; }

    double first_save_;
    double step_ = 0, evaluation_ = 0, save_ = 0; // 0: not measured yet
};

// As if a node wrote 500 MB/s. Data ranks that hold the same are counted twice: to the safe side.
double unmeasured_save_seconds(const memory::Plan& plan, int ranks_on_node);

} // namespace trireme::train
