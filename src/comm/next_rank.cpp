// Counts polls.
#include "comm/next_rank.hpp"

#include <algorithm>

namespace trireme::comm {
namespace {

constexpr double kLookSeconds = 10, kGoneSeconds = 2, kSilentSeconds = 30, kSilentPart = 1.0 / 20;

} // namespace

NextRank::NextRank(double timeout_seconds, double poll_seconds)
    : look_polls_(std::min(kLookSeconds, timeout_seconds) / poll_seconds),
      gone_polls_(kGoneSeconds / poll_seconds),
      silent_polls_(std::max(kSilentSeconds, kSilentPart * timeout_seconds) / poll_seconds) {}

NextRank::Verdict NextRank::poll(bool this_rank_waits, Process process) {
    if (!this_rank_waits) {
        forget();
        return Verdict::nothing;
    }
    ++polls_;
    if (!asked_) {
        if (polls_ < look_polls_)
            return Verdict::nothing;
        polls_ = 0;
        asked_ = true;
        return Verdict::ask;
    }
    const bool missing = process == Process::gone ? polls_ >= gone_polls_
                                                  : process == Process::elsewhere && polls_ >= silent_polls_;
    if (!missing)
        return Verdict::nothing;
    forget();
    return Verdict::missing;
}

} // namespace trireme::comm
