// Learning rate and weight decay at points whose values follow from the rule by hand, and the text of a
// schedule.
#include "trireme/optimizer/rate_schedule.hpp"

#include <cmath>
#include <gtest/gtest.h>

#include "trireme/base/error.hpp"

namespace trireme::optimizer {
namespace {

// Warm-up to 100, stable to 600, decay to 1000.
LearningRate wsd(AnnealStyle style) {
    return {.maximum = 1,
            .minimum = 0.25,
            .warmup_start = 0.5,
            .style = DecayStyle::warmup_stable_decay,
            .warmup_samples = 100,
            .decay_samples = 1000,
            .anneal_style = style,
            .anneal_samples = 400};
}

constexpr double kBound = 4 * 0x1p-52; // of numbers up to 1, some operations

TEST(RateSchedule, WarmupStableDecay) {
    for (const AnnealStyle style : {AnnealStyle::exponential, AnnealStyle::linear, AnnealStyle::cosine,
                                    AnnealStyle::minus_square_root}) {
        const LearningRate rate = wsd(style);
        EXPECT_EQ(rate.at(0), 0.5);
        EXPECT_EQ(rate.at(50), 0.75);
        EXPECT_EQ(rate.at(100), 1);
        EXPECT_EQ(rate.at(101), 1);
        EXPECT_EQ(rate.at(600), 1);
        EXPECT_NEAR(rate.at(1000), 0.25, kBound);
        EXPECT_EQ(rate.at(1001), 0.25);
    }
    // Halfway and a quarter through the fall, of 0.75.
    EXPECT_NEAR(wsd(AnnealStyle::exponential).at(800), 0.25 + 0.75 * (std::sqrt(2.0) - 1), kBound);
    EXPECT_NEAR(wsd(AnnealStyle::linear).at(700), 0.25 + 0.75 * 0.75, kBound);
    EXPECT_NEAR(wsd(AnnealStyle::cosine).at(800), 0.25 + 0.75 * 0.5, kBound);
    EXPECT_NEAR(wsd(AnnealStyle::minus_square_root).at(700), 0.25 + 0.75 * 0.5, kBound);
}

TEST(RateSchedule, OtherStyles) {
    LearningRate rate = wsd(AnnealStyle::linear);
    rate.style = DecayStyle::linear;
    EXPECT_NEAR(rate.at(550), 0.25 + 0.75 * 0.5, kBound);
    rate.style = DecayStyle::cosine;
    EXPECT_NEAR(rate.at(400), 0.25 + 0.75 * (0.5 + 1) / 2, kBound); // cos 60 degrees
    rate.style = DecayStyle::inverse_square_root;
    EXPECT_NEAR(rate.at(400), 0.5, kBound); // sqrt(100 / 400)
    rate.decay_samples = 10000;
    EXPECT_EQ(rate.at(9000), 0.25); // not below the lowest
    rate.style = DecayStyle::constant;
    EXPECT_EQ(rate.at(20000), 1);
}

TEST(RateSchedule, WeightDecayRises) {
    WeightDecay decay{.start = 0.1, .end = 0.3, .style = IncreaseStyle::linear, .increase_samples = 100};
    EXPECT_EQ(decay.at(0), 0.1);
    EXPECT_NEAR(decay.at(25), 0.15, kBound);
    EXPECT_NEAR(decay.at(100), 0.3, kBound);
    EXPECT_EQ(decay.at(101), 0.3);
    decay.style = IncreaseStyle::cosine;
    EXPECT_NEAR(decay.at(0), 0.1, kBound);
    EXPECT_NEAR(decay.at(50), 0.2, kBound);
    decay.increase_samples = 300;
    EXPECT_NEAR(decay.at(100), 0.1 + 0.2 * 0.25, kBound); // (1 + cos 120 degrees) / 2
    decay.style = IncreaseStyle::constant;
    EXPECT_EQ(decay.at(0), 0.3);
}

TEST(RateSchedule, TextReadsBackToTheSameSchedule) {
    RateSchedule schedule;
    schedule.learning_rate = wsd(AnnealStyle::minus_square_root);
    schedule.learning_rate.maximum = 0.1; // not exact in binary
    schedule.weight_decay = {
        .start = 1.0 / 3, .end = 0.5, .style = IncreaseStyle::cosine, .increase_samples = 7};
    EXPECT_EQ(rate_schedule_from_text(to_text(schedule)), schedule);

    RateSchedule other = schedule;
    other.learning_rate.maximum = 0.2;
    other.learning_rate.style = DecayStyle::cosine;
    EXPECT_EQ(differences(schedule, other),
              (std::vector<std::string>{"lr 0.1 (0.2 in the checkpoint)",
                                        "lr-decay-style WSD (cosine in the checkpoint)"}));
    EXPECT_TRUE(differences(schedule, schedule).empty());

    for (const std::string broken : {std::string(), to_text(schedule).substr(4), std::string("lr = fast\n")})
        EXPECT_THROW(rate_schedule_from_text(broken), Error);
}

} // namespace
} // namespace trireme::optimizer
