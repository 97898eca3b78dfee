// Which checkpoints stay, and what interrupted runs have left.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme::checkpoint {

struct Retention {
    std::int64_t last = 0;        // so many stay; 0: all
    std::int64_t interval = 0;    // multiples of it stay for ever; 0: none
    std::filesystem::path loaded; // stays: what the run began from
};

// Those that go once `published` is there: of the checkpoints up to its iteration, all but the last ones,
// multiples of the interval and the one that was loaded. Later ones, left by a run that went further, are not
// touched.
std::vector<std::filesystem::path> superfluous(const std::filesystem::path& directory, std::int64_t published,
                                               const Retention& retention);

// Deletes them: renamed first, so that none is ever there by half. One rank. A failure is a line in what is
// returned and no more: old checkpoints do no harm.
std::vector<std::string> remove_superfluous(const std::filesystem::path& directory, std::int64_t published,
                                            const Retention& retention);

// Removes what interrupted saves and deletions have left, and puts back a checkpoint that was moved aside for
// one that never came. One rank, which holds the lease. A line for each thing that was done.
std::vector<std::string> clean_up(const std::filesystem::path& directory);

} // namespace trireme::checkpoint
