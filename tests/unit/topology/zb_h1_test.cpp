// ZB-H1 over every count of stages 1..16 and micro-batches 1..64: the checker's proof, the closed form of its
// time, the paper's bubble, and the memory of 1F1B's first stage on every stage.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "trireme/base/error.hpp"
#include "trireme/topology/schedule.hpp"

namespace trireme::topology {
namespace {

using enum Op;

Timeline simulate_equal(const Schedule& schedule, const PieceCost& cost) {
    return simulate(schedule, std::vector(static_cast<std::size_t>(schedule.stages), std::vector{cost}));
}

TEST(ZeroBubble, CheckerAcceptsEveryCount) {
    for (int stages = 1; stages <= 16; ++stages)
        for (int micro_batches = 1; micro_batches <= 64; ++micro_batches)
            ASSERT_NO_THROW(check(make_schedule(ScheduleKind::zb_h1, stages, micro_batches, 1)))
                << stages << " " << micro_batches;
}

TEST(ZeroBubble, HoldsWhatTheFirstStageOf1F1BHolds) {
    for (int stages = 1; stages <= 16; ++stages)
        for (int micro_batches = 1; micro_batches <= 64; ++micro_batches) {
            const Schedule schedule = make_schedule(ScheduleKind::zb_h1, stages, micro_batches, 1);
            const Schedule plain = make_schedule(ScheduleKind::one_f_one_b, stages, micro_batches, 1);
            for (int s = 0; s < stages; ++s) {
                const auto stage = static_cast<std::size_t>(s);
                ASSERT_EQ(schedule.in_flight[stage], plain.in_flight[0]);
                ASSERT_EQ(schedule.in_flight[stage], std::vector{std::min(stages, micro_batches)});
                // One being received, one whose halves run, and those whose weight gradient is put off.
                ASSERT_LE(schedule.gradients_held[stage][0], s + 2);
            }
        }
}

TEST(ZeroBubble, TimeIsTheClosedFormForEqualStages) {
    // Weight gradients shorter than both others, between them, longest; all dyadic, so that sums are exact.
    for (const auto& [f, b, w] : {std::array{1.0, 1.0, 1.0},
                                  {1.0, 1.25, 0.75},
                                  {4.0, 2.0, 1.0},
                                  {1.0, 1.5, 1.25},
                                  {2.0, 1.0, 1.5},
                                  {1.0, 2.0, 4.0}})
        for (int stages = 1; stages <= 16; ++stages)
            for (int micro_batches = 1; micro_batches <= 64; ++micro_batches) {
                const Schedule schedule = make_schedule(ScheduleKind::zb_h1, stages, micro_batches, 1);
                const Timeline timeline = simulate_equal(schedule, {f, b, w, 0});
                const double expected = micro_batches * (f + b + w) +
                                        (stages - 1) * std::max({f + b - w, f, b}) +
                                        std::max(0, stages - micro_batches) * std::min({f, b, w});
                ASSERT_EQ(timeline.seconds, expected)
                    << stages << " " << micro_batches << " " << f << " " << b << " " << w;
            }
}

// Qi et al. 2023, table 2: (p - 1) (F + B - W) idle on each stage, against (p - 1) (F + B + W) under 1F1B.
TEST(ZeroBubble, IsThePapersBubble) {
    const PieceCost cost{1, 1, 1, 0};
    const Timeline zero = simulate_equal(make_schedule(ScheduleKind::zb_h1, 4, 8, 1), cost);
    const Timeline plain = simulate_equal(make_schedule(ScheduleKind::one_f_one_b, 4, 8, 1), cost);
    EXPECT_EQ(zero.seconds, 8 * 3 + 3);
    EXPECT_EQ(plain.seconds, 8 * 3 + 9);
    EXPECT_LE(std::abs(zero.bubble - 3.0 / 27.0), 1e-15);
}

TEST(ZeroBubble, TwoStages) {
    const Schedule schedule = make_schedule(ScheduleKind::zb_h1, 2, 2, 1);
    const std::vector<Instruction> first{
        {forward, 0, 0},        {send_forward, 0, 0},     {receive_backward, 0, 0}, {forward, 1, 0},
        {send_forward, 1, 0},   {receive_backward, 1, 0}, {input_gradient, 0, 0},   {weight_gradient, 0, 0},
        {input_gradient, 1, 0}, {weight_gradient, 1, 0},  {reduce_gradients, -1, 0}};
    const std::vector<Instruction> last{
        {receive_forward, 0, 0}, {receive_forward, 1, 0}, {forward, 0, 0},          {input_gradient, 0, 0},
        {send_backward, 0, 0},   {forward, 1, 0},         {input_gradient, 1, 0},   {send_backward, 1, 0},
        {weight_gradient, 0, 0}, {weight_gradient, 1, 0}, {reduce_gradients, -1, 0}};
    EXPECT_EQ(schedule.ranks.at(0), first);
    EXPECT_EQ(schedule.ranks.at(1), last);
    EXPECT_EQ(schedule.in_flight, (std::vector<std::vector<int>>{{2}, {2}}));
    EXPECT_EQ(schedule.gradients_held, (std::vector<std::vector<int>>{{2}, {2}}));
}

TEST(ZeroBubble, MoreChunksAreAUsageError) {
    try {
        make_schedule(ScheduleKind::zb_h1, 2, 4, 2);
        FAIL() << "accepted";
    } catch (const Error& error) {
        EXPECT_EQ(error.category(), ErrorCategory::usage);
    }
}

TEST(DrawText, ZeroBubbleExampleOfTheComment) {
    const Schedule schedule = make_schedule(ScheduleKind::zb_h1, 3, 4, 1);
    EXPECT_EQ(draw_text(simulate_equal(schedule, {}), 1.0), "stage 0  012..aA3bBcCdD\n"
                                                            "stage 1  .01.a2bA3cBdCD\n"
                                                            "stage 2  ..0a1b2cA3dBCD\n");
}

} // namespace
} // namespace trireme::topology
