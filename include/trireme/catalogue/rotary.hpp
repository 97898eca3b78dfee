// The angles of the rotary position embedding: computed on the host in fp64, rounded once into the table that
// the operation `rotary` reads.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trireme/tensor/tensor.hpp"

namespace trireme::catalogue {

// How Llama 3.1 stretches its context (Grattafiori et al. 2024, "The Llama 3 Herd of Models", and the
// `rope_scaling` entry of the models' config.json): frequencies of long wavelength are divided by `factor`,
// those of short wavelength stay, between them goes a straight line.
struct RotaryScaling {
    double factor = 8;
    double low_frequency_factor = 1;
    double high_frequency_factor = 4;
    std::int64_t original_positions = 8192;
};

struct RotaryConfig {
    std::int64_t head_dim = 0; // D
    double percent = 1;        // of the head's dimensions are rotated, from the first on
    double base = 10000;
    std::optional<RotaryScaling> scaling;
};

// R, the rotated dimensions of a head: head_dim * percent rounded down. Throws (usage) unless it is even and
// in [2, head_dim].
std::int64_t rotary_dimensions(const RotaryConfig& config);

// [R / 2], radians per position: base^(-2i / R) (Su et al. 2021), scaled where asked.
std::vector<double> rotary_frequencies(const RotaryConfig& config);

// table [P, R], f32 or f64, host memory: row p holds cos(p f_i) for i < R / 2, then sin(p f_i).
void fill_rotary_table(const RotaryConfig& config, Tensor table);

} // namespace trireme::catalogue
