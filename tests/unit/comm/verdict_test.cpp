// The watchdog's judgement on made-up answers of ranks, and lists of ranks as people read them.
#include <gtest/gtest.h>

#include <cstring>

#include "comm/rank_list.hpp"
#include "comm/verdict.hpp"

namespace trireme::comm {

namespace {

RankState working(const char* phase, double quiet_seconds, std::int64_t iteration = 12) {
    RankState state;
    std::strcpy(state.phase, phase);
    state.iteration = iteration;
    state.quiet_seconds = quiet_seconds;
    return state;
}

RankState waiting(const char* what, double seconds, std::int64_t iteration = 12) {
    RankState state = working("reduce", seconds, iteration);
    state.waiting_seconds = seconds;
    std::strcpy(state.what, what);
    std::strcpy(state.group, "data group");
    return state;
}

std::string headline(const std::vector<std::optional<RankState>>& states) {
    const std::vector<std::string> hosts(states.size(), "node1");
    const Error error = judge(states, hosts, 30, 2);
    EXPECT_EQ(error.exit_code(), 5);
    return error.what();
}

TEST(Verdict, ARankThatDoesNotAnswerIsBehindEvenIfOthersWork) {
    EXPECT_EQ(headline({waiting("all-reduce", 31), std::nullopt, working("forward", 31)}),
              "rank 1 on node1 is behind: does not answer (asked 2.0 s ago); 1 rank waits in all-reduce of "
              "the data group");
}

TEST(Verdict, TheRankThatWorksLongestIsBehind) {
    EXPECT_EQ(headline({waiting("all-reduce", 31), working("forward", 0.1), working("save", 31),
                        waiting("all-reduce", 30)}),
              "rank 2 on node1 is behind: in phase 'save', iteration 12, for 31.0 s; 2 ranks wait in "
              "all-reduce of the "
              "data group");
}

TEST(Verdict, AmongWaitingRanksTheEarlierIterationIsBehind) {
    EXPECT_EQ(
        headline({waiting("all-reduce", 31, 13), waiting("barrier", 31, 12), waiting("all-reduce", 31, 13)}),
        "rank 1 on node1 is behind: in phase 'reduce', iteration 12, waits in barrier of the data group for "
        "31.0 s; "
        "2 ranks wait in all-reduce of the data group");
}

TEST(Verdict, RanksThatWaitForOneAnother) {
    EXPECT_EQ(headline({waiting("send", 31), waiting("send", 32)}),
              "all 2 ranks wait for one another; 2 ranks wait in send of the data group");
}

TEST(Verdict, AskedToEndWithARankGone) {
    const Error error =
        judge_end(std::vector<std::optional<RankState>>{waiting("all-reduce", 1), std::nullopt,
                                                        waiting("all-reduce", 2), working("save", 3)},
                  {"node1", "node1", "node2", "node2"}, 1);
    EXPECT_EQ(error.exit_code(), 5);
    EXPECT_STREQ(error.what(),
                 "the job is being ended, and rank 1 (node1) does not answer (asked 1.0 s ago)");
    EXPECT_EQ(error.details()[0],
              "ranks 0, 2 were in phase 'reduce', iteration 12, waiting in all-reduce of the data group");
    EXPECT_EQ(error.details()[1], "rank 3 was in phase 'save', iteration 12");
}

TEST(RankList, JoinsRunsAndStaysShort) {
    EXPECT_EQ(rank_list({3}), "rank 3");
    EXPECT_EQ(rank_list({0, 1, 2, 5, 7, 8}), "ranks 0-2, 5, 7, 8");
    std::vector<int> odd;
    for (int r = 1; r < 200; r += 2)
        odd.push_back(r);
    EXPECT_EQ(rank_list(odd), "ranks 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, ... (100 ranks)");
}

} // namespace

} // namespace trireme::comm
