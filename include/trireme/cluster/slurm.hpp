// What Slurm says of this job: from the environment that it gives each task, and from squeue. Nothing here
// needs Slurm to be installed; without it there is no job.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace trireme::cluster {

// The value of a variable, or nothing. Tests pass their own.
using Variables = std::function<std::optional<std::string>(const std::string& name)>;
std::optional<std::string> variable(const std::string& name); // of this process

struct SlurmJob {
    std::string id;            // SLURM_JOB_ID: as in squeue, also of one task of an array
    std::int64_t restarts = 0; // SLURM_RESTART_COUNT: how often it was requeued
    std::optional<std::int64_t>
        end_time; // SLURM_JOB_END_TIME, seconds since 1970; newer versions of Slurm set it
};

// The job that this process belongs to.
std::optional<SlurmJob> find_slurm_job(const Variables& get = variable);

// squeue's time left, "MM:SS" ... "D-HH:MM:SS", in seconds; nothing for UNLIMITED, NOT_SET, INVALID.
std::optional<std::int64_t> parse_time_left(const std::string& text);

inline constexpr std::int64_t kNoEnd = std::int64_t{1} << 40; // a time that no run sees

// When the job ends as the controller sees it now (limits can be moved while a job runs), seconds since 1970
// or kNoEnd; nothing if squeue cannot tell. Takes up to ten seconds: one rank asks.
std::optional<std::int64_t> ask_end_time(const SlurmJob& job);

std::int64_t now_since_1970();

} // namespace trireme::cluster
