// g++ 12, tuned for several Intel processors, passes a 32-byte struct constant whose last word is zero as if
// it were its first; make/build.mk makes it move constants in smaller pieces. This fails if that way round
// the fault is ever lost.
#include <gtest/gtest.h>

namespace {

struct Four {
    double a = 1, b = 1, c = 1, d = 0;
};

[[gnu::noipa]] double last(Four four) {
    return four.d;
}

TEST(Compiler, PassesStructConstantsByValue) {
    EXPECT_EQ(last(Four{}), 0.0);
}

} // namespace
