// The loss scale through hand-made rows of good steps and overflows.
#include "trireme/optimizer/loss_scale.hpp"

#include <gtest/gtest.h>
#include <string_view>
#include <vector>

namespace trireme::optimizer {
namespace {

constexpr LossScaleSetup kDynamic{LossScaleSetup::Kind::dynamic, 64, 4, 3, 2};

// '.': a good step, 'x': an overflow. The scale after each.
std::vector<double> scales(LossScale& scale, std::string_view steps) {
    std::vector<double> result;
    for (const char step : steps) {
        scale.update(step == 'x');
        result.push_back(scale.value());
    }
    return result;
}

TEST(LossScale, GrowsAfterTheWindowAndShrinksWhenPatienceEnds) {
    LossScale scale(kDynamic);
    EXPECT_EQ(scales(scale, "...."), (std::vector<double>{64, 64, 128, 128}));
    // The first overflow since it grew is forgiven, also if good steps lie between; each later one halves.
    EXPECT_EQ(scales(scale, "x..x"), (std::vector<double>{128, 128, 128, 64}));
    EXPECT_EQ(scales(scale, "x.x"), (std::vector<double>{32, 32, 16}));
    // Growing gives it patience again.
    EXPECT_EQ(scales(scale, "...x"), (std::vector<double>{16, 16, 32, 32}));
    EXPECT_EQ(scales(scale, "x"), (std::vector<double>{16}));
}

TEST(LossScale, NeverFallsBelowTheLowest) {
    LossScale scale(kDynamic);
    EXPECT_EQ(scales(scale, "xxxxxxx"), (std::vector<double>{64, 32, 16, 8, 4, 4, 4}));
    EXPECT_FALSE(scale.can_shrink());
    scales(scale, "...");
    EXPECT_TRUE(scale.can_shrink());
}

TEST(LossScale, GoesOnFromItsState) {
    LossScale one(kDynamic), other(kDynamic);
    scales(one, "..x.");
    other.restore(one.state());
    EXPECT_EQ(scales(other, ".x...x"), scales(one, ".x...x"));
    EXPECT_EQ(one.state(), other.state());
}

TEST(LossScale, FixedAndNoneStay) {
    for (const auto kind : {LossScaleSetup::Kind::fixed, LossScaleSetup::Kind::none}) {
        LossScale scale({kind, 8, 1, 1, 1});
        EXPECT_EQ(scales(scale, "x.x."), (std::vector<double>(4, 8)));
        scale.restore({1024, 0, 1});
        EXPECT_EQ(scale.value(), 8);
        EXPECT_FALSE(scale.can_shrink());
    }
}

} // namespace
} // namespace trireme::optimizer
