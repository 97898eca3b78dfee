// Sums between two lines of the log: the mean of good losses, a bad one that is not hidden, and time that
// does not belong to steps. And what a run expects its work to take.
#include "train/log_interval.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/tiny_model.hpp"
#include "train/expected_times.hpp"

namespace trireme::train {
namespace {

using std::chrono::seconds;

const Clock::time_point kStart{seconds(100)};

StepReport report(double loss) {
    return {.loss = loss, .gradient_norm = 10 * loss, .updated = true};
}
StepSetup step(double rate) {
    return {.rates = {.learning_rate = rate}, .global_batch = 8};
}
IterationLine line_of(const LogInterval& interval, int at_second) {
    IterationLine line;
    interval.fill(line, Clock::time_point{seconds(at_second)}, test::tiny_setup());
    return line;
}

TEST(LogInterval, MeansOfGoodStepsAndTheRatesOfTheLast) {
    LogInterval interval(kStart);
    interval.add(report(1), step(0.5), Outcome::good);
    interval.add(report(4), step(0.25), Outcome::good);
    interval.leave_out(seconds(6)); // an evaluation
    const IterationLine line = line_of(interval, 110);
    EXPECT_EQ(line.loss, 2.5);
    EXPECT_EQ(line.gradient_norm, 40);
    EXPECT_EQ(line.learning_rate, 0.25);
    EXPECT_EQ(line.global_batch, 8);
    EXPECT_EQ(line.seconds_per_iteration, 2);         // 4 s for 2 steps
    EXPECT_EQ(line.tokens_per_second, 16.0 * 12 / 4); // sequences of 12
    EXPECT_GT(line.tflops_per_rank, 0);
}

TEST(LogInterval, ALossThatIsNotFiniteIsNotHidden) {
    LogInterval interval(kStart);
    interval.add(report(1), step(1), Outcome::good);
    interval.add(report(std::numeric_limits<double>::infinity()), step(1), Outcome::not_finite);
    interval.add(report(2), step(1), Outcome::good);
    EXPECT_TRUE(std::isinf(line_of(interval, 101).loss));
}

TEST(LogInterval, AnOverflowIsShownOnlyWhereNothingElseIs) {
    LogInterval interval(kStart);
    interval.add(report(7), step(1), Outcome::overflowed);
    EXPECT_EQ(line_of(interval, 101).loss, 7);
    interval.add(report(2), step(1), Outcome::good);
    EXPECT_EQ(line_of(interval, 101).loss, 2);
}

TEST(ExpectedTimes, SlowStepsAreForgottenAndSlowSavesAreNot) {
    ExpectedTimes times(30);
    EXPECT_EQ(times.step().step_seconds, 0);
    EXPECT_EQ(times.step().save_seconds, 30); // until one is measured
    for (const double took : {10.0, 1.0, 1.0})
        times.step_took(took);
    EXPECT_DOUBLE_EQ(times.step().step_seconds, 8.1);
    times.evaluation_took(20);
    EXPECT_DOUBLE_EQ(times.step_and_evaluation().step_seconds, 28.1);
    EXPECT_DOUBLE_EQ(times.evaluation(0.25).step_seconds, 5);
    times.save_took(4);
    times.save_took(2);
    EXPECT_EQ(times.evaluation(0.25).save_seconds, 4);
}

} // namespace
} // namespace trireme::train
