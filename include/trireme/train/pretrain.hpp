// `trireme pretrain`: the training loop.
#pragma once

#include <chrono>
#include <optional>

#include "trireme/cluster/slurm.hpp"
#include "trireme/comm/runtime.hpp"
#include "trireme/options/resolve.hpp"
#include "trireme/train/exit_record.hpp"

namespace trireme::train {

// How the program came to run.
struct Launch {
    std::optional<cluster::SlurmJob> job;
    std::chrono::steady_clock::time_point start;
    ExitRecord* record = nullptr;
};

// Trains as the options say; returns the exit code: 0, or 75 if a signal or a limit of time stopped it.
// Collective over the world. Throws Error on all ranks together.
int pretrain(const options::Resolved& options, comm::Runtime& runtime, const Launch& launch);

} // namespace trireme::train
