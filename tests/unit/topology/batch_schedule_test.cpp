// Batch schedules against a walk step by step, and Megatron-LM's formula of a ramp.
#include "trireme/topology/batch_schedule.hpp"

#include <gtest/gtest.h>

namespace trireme::topology {
namespace {

// Its rule: at c consumed samples, floor(c / (samples / increments)) increments; all of them beyond
// `samples`. In whole numbers.
std::int64_t ramp_at(std::int64_t start, std::int64_t increment, std::int64_t samples, std::int64_t final,
                     std::int64_t consumed) {
    if (consumed > samples || start == final)
        return final;
    const std::int64_t increments = (final - start) / increment;
    return samples == 0 ? final : start + consumed * increments / samples * increment;
}

TEST(BatchSchedule, RampFollowsTheFormula) {
    struct Ramp {
        std::int64_t start, increment, samples, final;
    };
    for (const Ramp& r : {Ramp{4, 4, 30, 16},
                          {4, 4, 31, 16},
                          {1, 1, 5, 9},
                          {16, 8, 300, 1536},
                          {8, 8, 0, 32},
                          {8, 3, 100, 8},
                          {2, 7, 1000, 9}}) {
        const BatchSchedule schedule = BatchSchedule::ramp_up(r.start, r.increment, r.samples, r.final);
        for (std::int64_t consumed = 0; consumed < 2 * r.samples + 10; ++consumed)
            ASSERT_EQ(schedule.at(consumed), ramp_at(r.start, r.increment, r.samples, r.final, consumed))
                << r.start << " " << r.samples << " at " << consumed;
        EXPECT_EQ(schedule.last(), r.final);
    }
    EXPECT_EQ(BatchSchedule::ramp_up(4, 4, 30, 16).sizes(), (std::vector<std::int64_t>{4, 8, 12, 16}));
}

TEST(BatchSchedule, IterationsAndSamplesAreThoseOfAWalk) {
    const std::vector<BatchSchedule> schedules{
        BatchSchedule::constant(7), BatchSchedule::ramp_up(4, 4, 30, 16), BatchSchedule::ramp_up(1, 1, 5, 9),
        BatchSchedule::ramp_up(64, 64, 10, 256), // one batch goes beyond all increments
        BatchSchedule::stepwise({{0, 6}, {10, 2}, {11, 12}, {40, 5}})};
    for (const BatchSchedule& schedule : schedules) {
        std::int64_t consumed = 0;
        for (std::int64_t iteration = 0; iteration < 60; ++iteration) {
            ASSERT_EQ(schedule.samples_of(iteration), consumed);
            const std::int64_t next = consumed + schedule.at(consumed);
            for (std::int64_t samples = consumed; samples < next; ++samples)
                ASSERT_EQ(schedule.iterations_within(samples), iteration) << samples;
            consumed = next;
        }
    }
}

} // namespace
} // namespace trireme::topology
