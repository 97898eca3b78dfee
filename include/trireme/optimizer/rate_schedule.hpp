// Learning rate and weight decay as functions of the samples that successful steps have consumed; rules and
// names are Megatron-LM's (its OptimizerParamScheduler). A step runs at the rates of the samples consumed
// before it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/optimizer/optimizer.hpp"

namespace trireme::optimizer {

enum class DecayStyle : std::uint8_t { constant, linear, cosine, inverse_square_root, warmup_stable_decay };
enum class AnnealStyle : std::uint8_t { exponential, linear, cosine, minus_square_root };
enum class IncreaseStyle : std::uint8_t { constant, linear, cosine };

struct LearningRate {
    double maximum = 0;
    double minimum = 0;
    double warmup_start = 0;
    DecayStyle style = DecayStyle::linear;
    std::int64_t warmup_samples = 0;
    std::int64_t decay_samples = 1; // warm-up included
    AnnealStyle anneal_style = AnnealStyle::exponential;
    std::int64_t anneal_samples = 0; // the last of decay_samples; of warmup_stable_decay alone

    // n <= warm-up: a line from warmup_start to maximum. Then minimum + share * (maximum - minimum), with
    // r = (n - warm-up) / (decay - warm-up): linear: share 1 - r; cosine: (1 + cos(pi r)) / 2. Inverse square
    // root: maximum sqrt(max(warm-up, 1) / n), at least minimum. Warm-up, stable, decay: share 1 until the
    // last anneal_samples, of which the part r is through: exponential: 2^(1 - r) - 1; linear and cosine as
    // above; minus square root: 1 - sqrt(r). After decay: minimum; constant: maximum.
    double at(std::int64_t samples) const;
    bool operator==(const LearningRate&) const = default;
};

struct WeightDecay {
    double start = 0;
    double end = 0;
    IncreaseStyle style = IncreaseStyle::constant;
    std::int64_t increase_samples = 1;

    // start + share * (end - start), with r = n / increase_samples: linear: r; cosine: (1 + cos(pi (1 - r)))
    // / 2. After that, and if constant: end.
    double at(std::int64_t samples) const;
    bool operator==(const WeightDecay&) const = default;
};

struct RateSchedule {
    LearningRate learning_rate;
    WeightDecay weight_decay;

    Rates at(std::int64_t samples) const { return {learning_rate.at(samples), weight_decay.at(samples)}; }
    bool operator==(const RateSchedule&) const = default;
};

// A line `name = value` for each number and style, exactly: what a checkpoint keeps.
std::string to_text(const RateSchedule& schedule);
// Throws Error (checkpoint) naming the line that it does not understand.
RateSchedule rate_schedule_from_text(const std::string& text);

// The names whose values differ, with both: "lr 0.001 (0.002 in the checkpoint)".
std::vector<std::string> differences(const RateSchedule& now, const RateSchedule& in_checkpoint);

} // namespace trireme::optimizer
