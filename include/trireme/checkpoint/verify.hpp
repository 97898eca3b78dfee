// Whether checkpoints are as they were written. Neither MPI nor a model is needed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme::checkpoint {

// One thing that is wrong.
struct Finding {
    std::string where; // "stage_000.h5 /parameters/output.weight", or the file
    // Global row-major elements, for a tensor whose data is damaged; 0, 0 otherwise.
    std::int64_t first_element = 0, end_element = 0;
    std::string what;
    // "stage_000.h5 /parameters/output.weight elements 4194304 to 8388607: sum 0123... instead of 4567..."
    std::string text() const;
};

struct Verdict {
    std::filesystem::path checkpoint;
    std::int64_t format_version = 0;
    std::int64_t iteration = -1;
    std::int64_t tensors = 0; // datasets that were read
    std::int64_t bytes = 0;
    bool has_sums = false; // version 1 has none: its files were only read
    std::vector<Finding> findings;
    bool good() const { return findings.empty(); }
};

// Reads all of one checkpoint (an iter_N directory), with bounded memory, and compares. What cannot be read
// is a finding too; throws nothing for a damaged checkpoint.
Verdict verify(const std::filesystem::path& checkpoint);

// The complete checkpoints of a --save directory by ascending iteration; `release` comes first. What is being
// written, or was left by an interrupted save, is not among them.
std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& directory);

} // namespace trireme::checkpoint
