// Interleaved 1F1B over every count of stages 1..16, micro-batches 1..64 and chunks 1..4: the checker's
// proof, the closed form of its time, and how much it holds against Megatron-LM's published warm-up.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "trireme/base/error.hpp"
#include "trireme/topology/schedule.hpp"

namespace trireme::topology {
namespace {

using enum Op;

void for_every_count(const std::function<void(const Schedule&)>& examine) {
    for (int stages = 1; stages <= 16; ++stages)
        for (int chunks = 1; chunks <= 4; ++chunks)
            for (int micro_batches = 1; micro_batches <= 64; ++micro_batches) {
                SCOPED_TRACE(
                    concat(stages, " stages, ", chunks, " chunks, ", micro_batches, " micro-batches"));
                examine(make_schedule(ScheduleKind::interleaved, stages, micro_batches, chunks));
                if (testing::Test::HasFailure())
                    return;
            }
}

std::vector<std::vector<PieceCost>> equal_costs(const Schedule& schedule, const PieceCost& cost) {
    return std::vector(static_cast<std::size_t>(schedule.stages),
                       std::vector(static_cast<std::size_t>(schedule.chunks), cost));
}

// Most pieces of micro-batches that a stage holds at one time, all chunks together.
int most_at_once(const std::vector<Instruction>& list) {
    int now = 0, most = 0;
    for (const Instruction& instruction : list) {
        if (instruction.op == forward)
            most = std::max(most, ++now);
        if (instruction.op == backward)
            --now;
    }
    return most;
}

TEST(Interleaved, CheckerAcceptsEveryCount) {
    for_every_count([](const Schedule& schedule) { ASSERT_NO_THROW(check(schedule)); });
}

TEST(Interleaved, TimeIsTheClosedFormForEqualPieces) {
    for_every_count([](const Schedule& schedule) {
        const int p = schedule.stages, m = schedule.micro_batches, v = schedule.chunks;
        for (const PieceCost& cost : {PieceCost{1, 1, 1, 0}, PieceCost{0.5, 2, 1.25, 0}}) {
            const Timeline timeline = simulate(schedule, equal_costs(schedule, cost));
            const double slots = m >= p ? m * v + p - 1 : m + p * v - 1;
            // Sums of dyadic fractions are exact; the quotients differ by rounding only.
            ASSERT_EQ(timeline.seconds, slots * (cost.forward + cost.input_gradient + cost.weight_gradient));
            ASSERT_LE(std::abs(timeline.bubble - (1 - m * v / slots)), 1e-15);
        }
    });
}

// Megatron-LM's warm-up is 2 (p - s - 1) + (v - 1) p, and one more forward runs before the first backward.
TEST(Interleaved, HoldsWhatMegatronHoldsForMultiplesOfTheStages) {
    for (int p = 1; p <= 16; ++p)
        for (int v = 2; v <= 4; ++v)
            for (int m = p; m <= 64; m += p) {
                const Schedule schedule = make_schedule(ScheduleKind::interleaved, p, m, v);
                for (int s = 0; s < p; ++s) {
                    const auto stage = static_cast<std::size_t>(s);
                    ASSERT_EQ(most_at_once(schedule.ranks[stage]),
                              std::min(m * v, 2 * (p - s - 1) + (v - 1) * p + 1));
                    for (std::size_t c = 0; c < static_cast<std::size_t>(v); ++c) {
                        ASSERT_EQ(schedule.inputs_held[stage][c], schedule.in_flight[stage][c] + 1);
                        ASSERT_LE(schedule.gradients_held[stage][c], 2);
                    }
                }
            }
}

// Elsewhere the groups are larger, by as little as sharing out what is left over allows.
TEST(Interleaved, HoldsLittleMoreForOtherCounts) {
    for_every_count([](const Schedule& schedule) {
        const int p = schedule.stages, m = schedule.micro_batches, v = schedule.chunks;
        if (v == 1)
            return;
        const int groups = std::max(1, m / p), largest = (m + groups - 1) / groups;
        for (int s = 0; s < p; ++s) {
            const auto stage = static_cast<std::size_t>(s);
            ASSERT_LE(most_at_once(schedule.ranks[stage]),
                      std::min(m * v, 2 * (p - s - 1) + (v - 1) * largest + 1));
            for (std::size_t c = 0; c < static_cast<std::size_t>(v); ++c) {
                ASSERT_LE(schedule.in_flight[stage][c], m);
                ASSERT_LE(schedule.inputs_held[stage][c],
                          schedule.in_flight[stage][c] + 1 + std::max(0, largest - p));
                ASSERT_LE(schedule.gradients_held[stage][c], 2 + std::max(0, largest - p));
            }
        }
    });
}

// Stage 1 of 2, 2 chunks, 4 micro-batches by Megatron-LM's rule: (v - 1) p = 2 warm-up forwards, then one
// forward and one backward in turn; groups of 2 go through chunk 0, then chunk 1, backwards the other way.
TEST(Interleaved, IsMegatronsOrderForMultiplesOfTheStages) {
    const Schedule schedule = make_schedule(ScheduleKind::interleaved, 2, 4, 2);
    std::vector<Instruction> computes;
    for (const Instruction& instruction : schedule.ranks.at(1))
        if (instruction.op == forward || instruction.op == backward)
            computes.push_back(instruction);
    const std::vector<Instruction> expected{
        {forward, 0, 0},  {forward, 1, 0}, // warm-up
        {forward, 0, 1},  {backward, 0, 1}, {forward, 1, 1},  {backward, 1, 1}, {forward, 2, 0},
        {backward, 0, 0}, {forward, 3, 0},  {backward, 1, 0}, {forward, 2, 1},  {backward, 2, 1},
        {forward, 3, 1},  {backward, 3, 1}, {backward, 2, 0}, {backward, 3, 0}};
    EXPECT_EQ(computes, expected);
}

TEST(Interleaved, OneChunkIsOneForwardOneBackward) {
    for (const int stages : {1, 2, 5})
        for (const int micro_batches : {1, 4, 9})
            EXPECT_EQ(make_schedule(ScheduleKind::interleaved, stages, micro_batches, 1).ranks,
                      make_schedule(ScheduleKind::one_f_one_b, stages, micro_batches, 1).ranks);
}

TEST(Interleaved, OneStageHoldsOneMicroBatch) {
    const Schedule schedule = make_schedule(ScheduleKind::interleaved, 1, 5, 3);
    EXPECT_EQ(schedule.in_flight, (std::vector<std::vector<int>>{{1, 1, 1}}));
}

// Chunk c of every micro-batch is forwarded before chunk c + 1 on the same stage, and differentiated after
// it.
TEST(Interleaved, ChunksFollowEachOther) {
    const Schedule schedule = make_schedule(ScheduleKind::interleaved, 3, 7, 3);
    for (const auto& list : schedule.ranks)
        for (int m = 0; m < 7; ++m)
            for (int c = 0; c < 2; ++c) {
                const auto at = [&](Op op, int chunk) {
                    return std::find(list.begin(), list.end(), Instruction{op, m, chunk});
                };
                EXPECT_LT(at(forward, c), at(forward, c + 1));
                EXPECT_LT(at(backward, c + 1), at(backward, c));
            }
}

TEST(DrawText, InterleavedExampleOfTheComment) {
    const Schedule schedule = make_schedule(ScheduleKind::interleaved, 2, 4, 2);
    EXPECT_EQ(draw_text(simulate(schedule, equal_costs(schedule, {})), 1.0),
              "stage 0  01012.aa3bb2aa3bb.cc.ddccdd\n"
              "stage 1  .010aa1bb2aa3bb2cc3ddccdd..\n");
}

} // namespace
} // namespace trireme::topology
