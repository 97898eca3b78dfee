// The learning rate as a function of the samples that successful steps have consumed; rules and names are
// Megatron-LM's (its OptimizerParamScheduler). A step runs at the rate of the samples consumed before it.
#pragma once

#include <cstdint>

namespace trireme::optimizer {

enum class DecayStyle : std::uint8_t { constant, linear, cosine, inverse_square_root };

struct LearningRate {
    double maximum = 0;
    double minimum = 0;
    double warmup_start = 0;
    DecayStyle style = DecayStyle::linear;
    std::int64_t warmup_samples = 0;
    std::int64_t decay_samples = 1; // warm-up included

    // n <= warm-up: a line from warmup_start to maximum. Then, with r = (n - warm-up) / (decay - warm-up):
    // linear: minimum + (1 - r) (maximum - minimum); cosine: minimum + (1 + cos(pi r)) / 2 (maximum -
    // minimum); inverse square root: maximum sqrt(max(warm-up, 1) / n), at least minimum. After decay:
    // minimum; constant: maximum.
    double at(std::int64_t samples) const;
};

} // namespace trireme::optimizer
