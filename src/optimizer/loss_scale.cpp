// Growth and backoff of the loss scale, both by powers of two: scaling is then exact.
#include "trireme/optimizer/loss_scale.hpp"

#include <algorithm>

namespace trireme::optimizer {

void LossScale::update(bool overflow) {
    constexpr double kGrowth = 2, kBackoff = 0.5;
    if (!dynamic())
        return;
    if (overflow) {
        state_.good_steps = 0;
        if (--state_.overflows_left <= 0)
            state_.scale = std::max(state_.scale * kBackoff, setup_.minimum);
    } else if (++state_.good_steps == setup_.window) {
        state_.good_steps = 0;
        state_.overflows_left = setup_.hysteresis;
        state_.scale *= kGrowth;
    }
}

void LossScale::restore(const State& state) {
    if (dynamic())
        state_ = state;
}

} // namespace trireme::optimizer
