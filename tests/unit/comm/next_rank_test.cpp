// When a rank takes the next one for dead: ten polls a second.
#include <gtest/gtest.h>

#include "comm/next_rank.hpp"

namespace trireme::comm {
namespace {

using Process = NextRank::Process;
using Verdict = NextRank::Verdict;

constexpr double kPollSeconds = 0.1;

// Seconds until poll() says something, at most `most`; -1: it said nothing.
double seconds_until(NextRank& next, Verdict wanted, Process process, double most) {
    for (int polls = 1; polls * kPollSeconds <= most + 1e-9; ++polls) {
        const Verdict verdict = next.poll(true, process);
        if (verdict != Verdict::nothing)
            return verdict == wanted ? polls * kPollSeconds : -2;
    }
    return -1;
}

TEST(NextRank, IsAskedAfterTenSecondsOfOneWait) {
    NextRank next(600, kPollSeconds);
    EXPECT_DOUBLE_EQ(seconds_until(next, Verdict::ask, Process::here, 1000), 10);
    next.answered();
    EXPECT_DOUBLE_EQ(seconds_until(next, Verdict::ask, Process::here, 1000), 10);

    NextRank short_waits(600, kPollSeconds);
    for (int i = 0; i < 1000; ++i)
        EXPECT_EQ(short_waits.poll(i % 90 != 0, Process::gone), Verdict::nothing);
}

TEST(NextRank, IsMissedSoonWhenItsProcessIsGone) {
    NextRank next(600, kPollSeconds);
    seconds_until(next, Verdict::ask, Process::gone, 1000);
    EXPECT_DOUBLE_EQ(seconds_until(next, Verdict::missing, Process::gone, 1000), 2);
}

TEST(NextRank, IsMissedOnAnotherHostAfterThirtySecondsOrATwentiethOfTheLimit) {
    NextRank next(600, kPollSeconds);
    seconds_until(next, Verdict::ask, Process::elsewhere, 1000);
    EXPECT_DOUBLE_EQ(seconds_until(next, Verdict::missing, Process::elsewhere, 1000), 30);

    NextRank patient(3600, kPollSeconds);
    seconds_until(patient, Verdict::ask, Process::elsewhere, 1000);
    EXPECT_DOUBLE_EQ(seconds_until(patient, Verdict::missing, Process::elsewhere, 1000), 180);
}

TEST(NextRank, IsLeftToTheLimitWhileItsProcessIsThere) {
    NextRank next(600, kPollSeconds);
    seconds_until(next, Verdict::ask, Process::here, 1000);
    EXPECT_EQ(seconds_until(next, Verdict::missing, Process::here, 1000), -1);
}

// The end of the wait, or an answer, begins all anew.
TEST(NextRank, AnAnswerOrTheEndOfTheWaitClearsIt) {
    NextRank next(600, kPollSeconds);
    seconds_until(next, Verdict::ask, Process::elsewhere, 1000);
    EXPECT_EQ(seconds_until(next, Verdict::missing, Process::elsewhere, 29), -1);
    next.answered();
    EXPECT_EQ(seconds_until(next, Verdict::missing, Process::elsewhere, 9), -1);
    EXPECT_EQ(next.poll(false, Process::elsewhere), Verdict::nothing);
    EXPECT_DOUBLE_EQ(seconds_until(next, Verdict::ask, Process::elsewhere, 1000), 10);
}

} // namespace
} // namespace trireme::comm
