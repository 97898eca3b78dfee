// Frequencies and table of the rotary position embedding.
#include "trireme/catalogue/rotary.hpp"

#include <cmath>
#include <cstddef>
#include <numbers>
#include <span>

#include "trireme/base/error.hpp"

namespace trireme::catalogue {
namespace {

// One frequency under Llama 3.1's scaling. With wavelength w = 2 pi / frequency and o = original_positions:
// w < o / high stays, w > o / low is divided, between them the share (o / w - low) / (high - low) stays.
// Example (factor 8, low 1, high 4, o 8192): w = 1000 stays, w = 10000 becomes 80000, w = 4096 keeps a third
// of its frequency and gets an eighth of the other two thirds.
double scaled(double frequency, const RotaryScaling& scaling) {
    const double turns =
        static_cast<double>(scaling.original_positions) * frequency / (2 * std::numbers::pi); // o / w
    if (turns > scaling.high_frequency_factor)
        return frequency;
    if (turns < scaling.low_frequency_factor)
        return frequency / scaling.factor;
    const double kept = (turns - scaling.low_frequency_factor) /
                        (scaling.high_frequency_factor - scaling.low_frequency_factor);
    return (1 - kept) * frequency / scaling.factor + kept * frequency;
}

template <class T>
void fill(std::span<const double> frequencies, std::span<T> table) {
    const std::size_t half = frequencies.size();
    for (std::size_t row = 0; row * 2 * half < table.size(); ++row)
        for (std::size_t i = 0; i < half; ++i) {
            const double angle = static_cast<double>(row) * frequencies[i];
            table[row * 2 * half + i] = static_cast<T>(std::cos(angle));
            table[row * 2 * half + half + i] = static_cast<T>(std::sin(angle));
        }
}

} // namespace

std::int64_t rotary_dimensions(const RotaryConfig& config) {
    const auto dimensions = static_cast<std::int64_t>(static_cast<double>(config.head_dim) * config.percent);
    if (dimensions < 2 || dimensions > config.head_dim || dimensions % 2 != 0)
        throw Error(ErrorCategory::usage,
                    concat("a head of ", config.head_dim, " dimensions of which ", config.percent * 100,
                           " % are rotated has ", dimensions, " rotated dimensions"),
                    {"needed: an even number, at least 2, at most the whole head",
                     "try: another --rotary-percent or --kv-channels"});
    return dimensions;
}

std::vector<double> rotary_frequencies(const RotaryConfig& config) {
    const std::int64_t dimensions = rotary_dimensions(config);
    if (!(config.base > 1))
        throw Error(ErrorCategory::usage, concat("--rotary-base is ", config.base, ", needed: more than 1"));
    if (config.scaling) {
        const RotaryScaling& s = *config.scaling;
        if (!(s.factor >= 1 && s.low_frequency_factor > 0 &&
              s.high_frequency_factor > s.low_frequency_factor && s.original_positions > 0))
            throw Error(ErrorCategory::usage, "the scaling of the rotary frequencies is out of range",
                        {concat("factor ", s.factor, ": at least 1"),
                         concat("low frequency factor ", s.low_frequency_factor, ", high ",
                                s.high_frequency_factor, ": 0 < low < high"),
                         concat("original positions ", s.original_positions, ": positive")});
    }
    std::vector<double> frequencies;
    for (std::int64_t i = 0; i < dimensions / 2; ++i) {
        const double frequency =
            std::pow(config.base, -2 * static_cast<double>(i) / static_cast<double>(dimensions));
        frequencies.push_back(config.scaling ? scaled(frequency, *config.scaling) : frequency);
    }
    return frequencies;
}

void fill_rotary_table(const RotaryConfig& config, Tensor table) {
    const std::vector<double> frequencies = rotary_frequencies(config);
    TRIREME_ASSERT(table.shape().rank() == 2 &&
                       table.shape()[1] == 2 * static_cast<std::int64_t>(frequencies.size()),
                   "a rotary table of shape ", table.shape().text(), " for ", 2 * frequencies.size(),
                   " rotated dimensions");
    if (table.type() == DType::f64)
        fill<double>(frequencies, table.values<double>());
    else
        fill<float>(frequencies, table.values<float>());
}

} // namespace trireme::catalogue
