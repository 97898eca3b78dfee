// What is kept of matrix algorithms: nothing twice, nothing lost, later lines behind earlier ones.
#include "train/tuning.hpp"

#include <gtest/gtest.h>

namespace trireme::train {
namespace {

TEST(Tuning, MergedLinesKeepTheirOrderAndStandOnce) {
    EXPECT_EQ(merge_lines("", ""), "");
    EXPECT_EQ(merge_lines("a 1\n", ""), "a 1\n");
    EXPECT_EQ(merge_lines("a 1\nb 2\n", "c 3\na 1\n"), "a 1\nb 2\nc 3\n");
    // The same shape with another choice: both stay, and whoever reads lets the later one win.
    EXPECT_EQ(merge_lines("a 1\n", "a 2\na 2\n"), "a 1\na 2\n");
}

} // namespace
} // namespace trireme::train
