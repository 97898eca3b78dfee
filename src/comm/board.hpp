// What this process is doing, in atomics: written by the main thread with a few stores, read by the
// watchdog's thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "comm/verdict.hpp"

namespace trireme::comm {

struct Board {
    std::atomic<const char*> phase{"start"};
    std::atomic<std::int64_t> number{-1};
    std::atomic<std::int64_t> iteration{-1};
    std::atomic<std::int64_t> progress_ns{0}; // when the phase or the iteration last changed, or a wait ended

    // Waiting for others while wait_since_ns is not 0; the three before it are then valid.
    std::atomic<const char*> wait_what{nullptr};
    std::atomic<const char*> wait_group{nullptr};
    std::atomic<int> wait_peer{-1}; // world rank, or -1: all of the group
    std::atomic<std::int64_t> wait_since_ns{0};

    std::atomic<std::int64_t> end_signal_ns{0}; // when this process was last asked to end; 0: never
};

Board& board(); // of this process

std::int64_t monotonic_ns();
double seconds_since(std::int64_t then_ns);

// What the board says, in answer to `question`; of a process that ran without a stop since `awake_ns`, which
// counts no wait and no silence from before.
RankState state_of_this_rank(std::int64_t question, std::int64_t awake_ns);

} // namespace trireme::comm
