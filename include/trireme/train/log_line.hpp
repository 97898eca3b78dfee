// The lines that a run prints for people, field for field as Megatron-LM's, followed by ours. Pure functions
// of numbers, so that tests hold them to the letter.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::train {

struct IterationLine {
    std::string time; // "2026-11-29 17:49:13"
    std::int64_t iteration = 0;
    std::int64_t train_iterations = 0;
    std::int64_t consumed_samples = 0;
    double seconds_per_iteration = 0;
    double tokens_per_second = 0; // of all ranks
    double tflops_per_rank = 0;   // model FLOPs, causal attention
    double learning_rate = 0;     // of the last step
    std::int64_t global_batch = 0;
    double loss = 0;          // mean over the steps since the last line; NaN is shown as nan
    double loss_scale = 1;    // for the next step
    double gradient_norm = 0; // of the last step
    std::int64_t skipped_iterations = 0;
    std::int64_t nan_iterations = 0;
};

std::string format(const IterationLine& line);

// " validation loss at iteration 100 | lm loss value: 2.931200E+00 | lm loss PPL: 1.875000E+01 |"
std::string format_evaluation(const std::string& what, const std::string& where, double loss);

// The same numbers as one JSON object, 17 significant digits; NaN and infinity are strings, which JSON's
// numbers cannot be.
std::string json(const IterationLine& line);
std::string json_evaluation(const std::string& what, std::int64_t iteration, std::int64_t consumed_samples,
                            double loss);

} // namespace trireme::train
