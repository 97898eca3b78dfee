// What the generators promise: exact small lists, closed forms of bubble and in-flight bounds, and the
// checker's proof over stages 1..16 and micro-batches 1..64.
#include <gtest/gtest.h>

#include <algorithm>

#include "trireme/base/error.hpp"
#include "trireme/topology/schedule.hpp"

namespace trireme::topology {
namespace {

using enum Op;

std::vector<std::vector<PieceCost>> equal_costs(const Schedule& schedule, const PieceCost& cost = {}) {
    return std::vector(static_cast<std::size_t>(schedule.stages),
                       std::vector(static_cast<std::size_t>(schedule.chunks), cost));
}

TEST(OneForwardOneBackward, OneStageAlternates) {
    const Schedule schedule = make_schedule(ScheduleKind::one_f_one_b, 1, 3, 1);
    const std::vector<Instruction> expected{{forward, 0, 0},          {backward, 0, 0}, {forward, 1, 0},
                                            {backward, 1, 0},         {forward, 2, 0},  {backward, 2, 0},
                                            {reduce_gradients, -1, 0}};
    EXPECT_EQ(schedule.ranks.at(0), expected);
    EXPECT_EQ(schedule.in_flight, (std::vector<std::vector<int>>{{1}}));
}

TEST(OneForwardOneBackward, TwoStages) {
    const Schedule schedule = make_schedule(ScheduleKind::one_f_one_b, 2, 3, 1);
    const std::vector<Instruction> first{
        {forward, 0, 0},          {send_forward, 0, 0},     {receive_backward, 0, 0}, {forward, 1, 0},
        {send_forward, 1, 0},     {receive_backward, 1, 0}, {backward, 0, 0},         {forward, 2, 0},
        {send_forward, 2, 0},     {receive_backward, 2, 0}, {backward, 1, 0},         {backward, 2, 0},
        {reduce_gradients, -1, 0}};
    const std::vector<Instruction> last{
        {receive_forward, 0, 0},  {receive_forward, 1, 0}, {forward, 0, 0},  {backward, 0, 0},
        {send_backward, 0, 0},    {receive_forward, 2, 0}, {forward, 1, 0},  {backward, 1, 0},
        {send_backward, 1, 0},    {forward, 2, 0},         {backward, 2, 0}, {send_backward, 2, 0},
        {reduce_gradients, -1, 0}};
    EXPECT_EQ(schedule.ranks.at(0), first);
    EXPECT_EQ(schedule.ranks.at(1), last);
}

TEST(GPipe, TwoStages) {
    const Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 2, 1);
    const std::vector<Instruction> first{{forward, 0, 0},  {send_forward, 0, 0}, {receive_backward, 0, 0},
                                         {forward, 1, 0},  {send_forward, 1, 0}, {receive_backward, 1, 0},
                                         {backward, 0, 0}, {backward, 1, 0},     {reduce_gradients, -1, 0}};
    EXPECT_EQ(schedule.ranks.at(0), first);
}

TEST(Schedules, CheckerAcceptsEveryStageAndMicroBatchCount) {
    for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b})
        for (int stages = 1; stages <= 16; ++stages)
            for (int micro_batches = 1; micro_batches <= 64; ++micro_batches)
                ASSERT_NO_THROW(check(make_schedule(kind, stages, micro_batches, 1)))
                    << name(kind) << " " << stages << " " << micro_batches;
}

TEST(Schedules, InFlightIsTheClosedForm) {
    for (int stages = 1; stages <= 16; ++stages)
        for (int micro_batches = 1; micro_batches <= 64; ++micro_batches) {
            const Schedule gpipe = make_schedule(ScheduleKind::gpipe, stages, micro_batches, 1);
            const Schedule plain = make_schedule(ScheduleKind::one_f_one_b, stages, micro_batches, 1);
            for (int s = 0; s < stages; ++s) {
                const auto stage = static_cast<std::size_t>(s);
                ASSERT_EQ(gpipe.in_flight.at(stage), std::vector{micro_batches});
                ASSERT_EQ(plain.in_flight.at(stage), std::vector{std::min(stages - s, micro_batches)});
            }
        }
}

TEST(Schedules, BubbleIsTheClosedFormForEqualStages) {
    for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b})
        for (int stages = 1; stages <= 16; ++stages)
            for (int micro_batches = 1; micro_batches <= 64; ++micro_batches)
                for (const PieceCost& cost : {PieceCost{1, 1, 1, 0}, PieceCost{0.5, 2, 1.25, 0}}) {
                    const Schedule schedule = make_schedule(kind, stages, micro_batches, 1);
                    const Timeline timeline = simulate(schedule, equal_costs(schedule, cost));
                    const double slots = micro_batches + stages - 1;
                    const double per_slot = cost.forward + cost.input_gradient + cost.weight_gradient;
                    // Sums of dyadic fractions are exact; the quotients differ by rounding only.
                    ASSERT_EQ(timeline.seconds, slots * per_slot)
                        << name(kind) << " " << stages << " " << micro_batches;
                    ASSERT_LE(std::abs(timeline.bubble - (stages - 1) / slots), 1e-15);
                }
}

// The receive of a micro-batch stands before the compute of the micro-batch before it.
TEST(Schedules, ReceivesArePostedAhead) {
    for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b})
        for (int stages = 2; stages <= 6; ++stages) {
            const Schedule schedule = make_schedule(kind, stages, 12, 1);
            for (int s = 0; s < stages; ++s) {
                const auto& list = schedule.ranks[static_cast<std::size_t>(s)];
                const auto position = [&](Op op, int m) {
                    return std::find(list.begin(), list.end(), Instruction{op, m, 0}) - list.begin();
                };
                for (int m = 1; m < 12; ++m) {
                    if (s > 0) {
                        EXPECT_LT(position(receive_forward, m), position(forward, m - 1));
                    }
                    if (s + 1 < stages && position(forward, m) < position(backward, m - 1)) {
                        EXPECT_LT(position(receive_backward, m), position(backward, m - 1));
                    }
                }
            }
        }
}

TEST(ForwardOnly, CheckerAcceptsEveryCount) {
    for (int stages = 1; stages <= 16; ++stages)
        for (int chunks = 1; chunks <= 4; ++chunks)
            for (int micro_batches = 1; micro_batches <= 64; micro_batches += micro_batches < 20 ? 1 : 7) {
                const Schedule schedule = make_forward_schedule(stages, micro_batches, chunks);
                ASSERT_NO_THROW(check(schedule, Passes::forward_only))
                    << stages << " " << micro_batches << " " << chunks;
                for (const auto& stage : schedule.in_flight)
                    ASSERT_EQ(stage, std::vector<int>(static_cast<std::size_t>(chunks), 1));
            }
}

TEST(ForwardOnly, FullGroupsLeaveNoStageIdle) {
    for (int stages = 1; stages <= 8; ++stages)
        for (int chunks = 1; chunks <= 4; ++chunks)
            for (int groups = 1; groups <= 4; ++groups) {
                const Schedule schedule = make_forward_schedule(stages, groups * stages, chunks);
                ASSERT_EQ(simulate(schedule, equal_costs(schedule)).seconds,
                          groups * stages * chunks + stages - 1);
            }
}

TEST(ForwardOnly, IsNoTrainingScheduleNorTheReverse) {
    EXPECT_THROW(check(make_forward_schedule(2, 3, 1)), Error);
    EXPECT_THROW(check(make_schedule(ScheduleKind::gpipe, 2, 3, 1), Passes::forward_only), Error);
}

TEST(Schedules, BadNumbersAreUsageErrors) {
    const auto category = [](ScheduleKind kind, int stages, int micro_batches, int chunks) {
        try {
            make_schedule(kind, stages, micro_batches, chunks);
        } catch (const Error& error) {
            return error.category();
        }
        return ErrorCategory::internal;
    };
    EXPECT_EQ(category(ScheduleKind::gpipe, 0, 1, 1), ErrorCategory::usage);
    EXPECT_EQ(category(ScheduleKind::gpipe, 1, 0, 1), ErrorCategory::usage);
    EXPECT_EQ(category(ScheduleKind::one_f_one_b, 2, 4, 0), ErrorCategory::usage);
    EXPECT_EQ(category(ScheduleKind::one_f_one_b, 2, 4, 2), ErrorCategory::usage);
    EXPECT_EQ(category(ScheduleKind::interleaved, 2, 4, 0), ErrorCategory::usage);
}

TEST(DrawText, WorkedExamplesOfTheComments) {
    const auto draw = [](ScheduleKind kind, int stages, int micro_batches) {
        const Schedule schedule = make_schedule(kind, stages, micro_batches, 1);
        return draw_text(simulate(schedule, equal_costs(schedule)), 1.0);
    };
    EXPECT_EQ(draw(ScheduleKind::one_f_one_b, 2, 3), "stage 0  01..aa2bb.cc\n"
                                                     "stage 1  .0aa1bb2cc..\n");
    EXPECT_EQ(draw(ScheduleKind::gpipe, 3, 4), "stage 0  0123......aabbccdd\n"
                                               "stage 1  .0123...aabbccdd..\n"
                                               "stage 2  ..0123aabbccdd....\n");
    EXPECT_EQ(draw(ScheduleKind::one_f_one_b, 3, 4), "stage 0  012....aa3bb.cc.dd\n"
                                                     "stage 1  .01..aa2bb3cc.dd..\n"
                                                     "stage 2  ..0aa1bb2cc3dd....\n");
}

TEST(DrawText, ForwardOnlyExample) {
    const Schedule schedule = make_forward_schedule(2, 4, 2);
    EXPECT_EQ(draw_text(simulate(schedule, equal_costs(schedule)), 1.0), "stage 0  01012323.\n"
                                                                         "stage 1  .01012323\n");
}

TEST(DrawText, ColumnsAreSampledInTheirMiddle) {
    const Schedule schedule = make_schedule(ScheduleKind::gpipe, 1, 12, 1);
    const Timeline timeline = simulate(schedule, equal_costs(schedule));
    EXPECT_EQ(draw_text(timeline, 1.0), "stage 0  012345678901aabbccddeeffgghhiijjaabb\n");
    EXPECT_EQ(draw_text(timeline, 2.0), "stage 0  13579"
                                        "1abcdefghijab\n");
}

} // namespace
} // namespace trireme::topology
