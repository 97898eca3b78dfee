// Who is behind: from what the ranks say of themselves to the one message of the watchdog. No MPI, so that it
// is tested without.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/error.hpp"

namespace trireme::comm {

// One rank's answer, sent as it is between ranks.
struct RankState {
    std::int64_t question = 0; // which one this answers
    std::int64_t iteration = -1;
    std::int64_t number = -1;    // of the phase (micro-batch)
    std::int64_t process = 0;    // operating system's
    double waiting_seconds = -1; // in one communication; negative: not waiting
    double quiet_seconds = 0;    // since the last progress
    int peer = -1;               // world rank waited for, or -1: the group
    char phase[52] = {};
    char what[52] = {}; // waited for
    char group[52] = {};
    bool waits() const { return waiting_seconds >= 0; }
};

// states[r]: of world rank r, empty if it did not answer within `answer_seconds`. The Error to print: which
// rank is behind (not answering, or not waiting for anybody, or at an earlier iteration), who waits for it,
// and what to try.
Error judge(std::span<const std::optional<RankState>> states, const std::vector<std::string>& hosts,
            double timeout_seconds, double answer_seconds);

// The Error to print when this job is asked to end by a signal while ranks (empty states) have not answered
// for `answer_seconds`: who is gone, and what each of the others was doing.
Error judge_end(std::span<const std::optional<RankState>> states, const std::vector<std::string>& hosts,
                double answer_seconds);

} // namespace trireme::comm
