// The learning-rate schedule.
#include "trireme/optimizer/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trireme::optimizer {

double LearningRate::at(std::int64_t samples) const {
    const auto n = static_cast<double>(samples);
    const auto warmup = static_cast<double>(warmup_samples), decay = static_cast<double>(decay_samples);
    if (warmup_samples > 0 && samples <= warmup_samples)
        return warmup_start + (maximum - warmup_start) * n / warmup;
    if (style == DecayStyle::constant)
        return maximum;
    if (samples > decay_samples)
        return minimum;
    if (style == DecayStyle::inverse_square_root)
        return std::max(minimum, maximum * std::sqrt(std::max(warmup, 1.0)) / std::sqrt(std::max(n, 1.0)));
    const double ratio = (n - warmup) / (decay - warmup);
    const double share =
        style == DecayStyle::linear ? 1 - ratio : (std::cos(std::numbers::pi * ratio) + 1) / 2;
    return minimum + share * (maximum - minimum);
}

} // namespace trireme::optimizer
