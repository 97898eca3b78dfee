// What a step changes, good or not, and what the next one is; and that a checkpoint's state goes on as the
// training that wrote it would have.
#include "train/progress.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace trireme::train {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

options::Resolved resolved(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"--tokenizer-type",
                                          "NullTokenizer",
                                          "--vocab-size",
                                          "9",
                                          "--data-path",
                                          "corpus",
                                          "--num-layers",
                                          "1",
                                          "--hidden-size",
                                          "8",
                                          "--seed",
                                          "5",
                                          "--num-attention-heads",
                                          "2",
                                          "--seq-length",
                                          "4",
                                          "--max-position-embeddings",
                                          "4",
                                          "--train-iters",
                                          "8",
                                          "--micro-batch-size",
                                          "2",
                                          "--lr",
                                          "8",
                                          "--global-batch-size",
                                          "2",
                                          "--device",
                                          "cpu",
                                          "--lr-warmup-iters",
                                          "4"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return options::resolve(options::parse(options::Command::pretrain, arguments), {.ranks = 1});
}

StepReport good() {
    return {.loss = 3, .gradient_norm = 1, .updated = true};
}
StepReport left_alone(double loss) {
    return {.loss = loss, .gradient_norm = kNan, .updated = false};
}

TEST(Progress, RatesFollowGoodStepsAndDataAllSteps) {
    const options::Resolved options = resolved({});
    Progress progress(options);
    EXPECT_EQ(progress.next_step().rates.learning_rate, 0); // the first step of a warm-up
    EXPECT_EQ(progress.next_step().global_batch, 2);
    EXPECT_EQ(progress.count(good(), progress.next_step()), Outcome::good);
    EXPECT_EQ(progress.next_step().rates.learning_rate, 2); // 8 * 1/4
    EXPECT_EQ(progress.count(left_alone(kNan), progress.next_step()), Outcome::not_finite);
    EXPECT_EQ(progress.next_step().rates.learning_rate, 2); // still
    EXPECT_EQ(progress.iteration(), 2);
    EXPECT_EQ(progress.consumed_samples(), 4);
    EXPECT_EQ(progress.skipped_iterations(), 1);
    EXPECT_EQ(progress.nan_iterations(), 1);
}

TEST(Progress, ALossThatIsNotFiniteCountsThoughTheWeightsWereUpdated) {
    const options::Resolved options = resolved({});
    Progress progress(options);
    EXPECT_EQ(progress.count({.loss = kNan, .gradient_norm = 1, .updated = true}, progress.next_step()),
              Outcome::not_finite);
    EXPECT_EQ(progress.skipped_iterations(), 0);
    EXPECT_EQ(progress.nan_iterations(), 1);
}

TEST(Progress, AnOverflowIsTheScalesFaultUntilTheScaleCannotShrink) {
    const options::Resolved options =
        resolved({"--fp16", "--initial-loss-scale", "4", "--min-loss-scale", "1", "--hysteresis", "1"});
    Progress progress(options);
    for (const double scale : {4.0, 2.0}) {
        EXPECT_EQ(progress.next_step().loss_scale, scale);
        EXPECT_EQ(progress.count(left_alone(3), progress.next_step()), Outcome::overflowed);
    }
    EXPECT_EQ(progress.nan_iterations(), 0);
    EXPECT_EQ(progress.next_step().loss_scale, 1);
    EXPECT_EQ(progress.count(left_alone(3), progress.next_step()), Outcome::not_finite);
    EXPECT_EQ(progress.skipped_iterations(), 3);
    EXPECT_EQ(progress.nan_iterations(), 1);
}

TEST(Progress, ACheckpointsStateGoesOnWhereItWasWritten) {
    const options::Resolved options = resolved({"--fp16", "--initial-loss-scale", "4"});
    Progress first(options);
    static_cast<void>(first.count(good(), first.next_step()));
    static_cast<void>(first.count(left_alone(3), first.next_step()));
    const checkpoint::State state = first.state(1, "TP 1");
    EXPECT_EQ(state.optimizer_steps, 1);
    EXPECT_EQ(state.layout, "TP 1");

    const options::Resolved others = resolved({"--fp16", "--seed", "6", "--lr", "16"});
    Progress second(others);
    const std::vector<std::string> changed = second.restore(state);
    ASSERT_EQ(changed.size(), 1U);
    EXPECT_NE(changed[0].find("lr 16"), std::string::npos) << changed[0];
    EXPECT_EQ(second.iteration(), 2);
    EXPECT_EQ(second.consumed_samples(), 4);
    EXPECT_EQ(second.seed(), 5U); // the checkpoint's
    EXPECT_EQ(second.next_step().loss_scale, first.next_step().loss_scale);
    EXPECT_EQ(second.next_step().rates.learning_rate, 4); // the options': 16 * 1/4

    const options::Resolved theirs = resolved({"--fp16", "--seed", "6", "--lr", "16", "--load", "x",
                                               "--no-load-rng", "--use-checkpoint-opt_param-scheduler"});
    Progress third(theirs);
    EXPECT_EQ(third.restore(state), changed);
    EXPECT_EQ(third.seed(), 6U);
    EXPECT_EQ(third.next_step().rates.learning_rate, 2);
}

} // namespace
} // namespace trireme::train
