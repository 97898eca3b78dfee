// SAVE/last_exit: why a run ended, for the job script that started it and for the next attempt. Lines
// KEY=VALUE, written as one by one rank:
//
//     reason=signal        signal, time-limit, duration, exit-interval, iterations or error
//     signal=USR1          empty unless a signal was the reason
//     iteration=1200       the last step that was finished
//     exit=75              the exit code
//     job=4711             SLURM_JOB_ID; empty without Slurm
//     attempt=2            SLURM_RESTART_COUNT; 0 the first time, and without Slurm
//
// It is removed when a run starts, so that its absence says: ended without a word (killed, node lost).
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "trireme/cluster/slurm.hpp"

namespace trireme::train {

class ExitRecord {
  public:
    // directory: of --save; "": nothing is recorded.
    ExitRecord(std::filesystem::path directory, std::optional<cluster::SlurmJob> job);

    // Every rank, once the directory is this run's: from now on an error is recorded.
    void own() { ours_ = true; }
    // The first rank: what an earlier attempt left is gone.
    void clear() const;
    void reached(std::int64_t iteration) { iteration_.store(iteration); }
    // Throws Error (output).
    void write(const std::string& reason, int exit_code, const std::string& signal = "") const;
    // For the end after an error, which matters more than a record of it that cannot be written. Nothing
    // before own(): the directory may be another run's.
    void write_error(int exit_code) const;

  private:
    std::filesystem::path directory_;
    std::optional<cluster::SlurmJob> job_;
    bool ours_ = false;                      // from own() on
    std::atomic<std::int64_t> iteration_{0}; // written by the main thread, read by the watchdog's
};

} // namespace trireme::train
