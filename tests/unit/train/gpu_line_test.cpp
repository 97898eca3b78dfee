// The line of --log-gpu: means, and the rank that is farthest off, in the direction that hurts.
#include <cmath>
#include <gtest/gtest.h>

#include "train/gpu_line.hpp"

namespace trireme::train {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

TEST(GpuLine, OneRank) {
    EXPECT_EQ(
        format_gpus({{117.25 * kGiB, 139.8 * kGiB, 99, 1755, 688.4, 61}}, {"node1"}),
        " gpu: memory 117.2 GiB of 139.8 | busy 99 % | clock 1755 MHz | power 688 W | temperature 61 C");
}

TEST(GpuLine, NamesTheRankThatIsFarthest) {
    const std::string line =
        format_gpus({{10 * kGiB, 80 * kGiB, 100, 1900, 600, 50}, {20 * kGiB, 80 * kGiB, 80, 1100, 300, 80}},
                    {"node1", "node2"});
    EXPECT_EQ(
        line,
        " gpu (mean of ranks; the farthest): memory 15.0 GiB of 80.0 (20.0, rank 1 on node2) | busy 90 % "
        "(80, rank 1 on node2) | clock 1500 MHz (1100, rank 1 on node2) | power 450 W (600, rank 0 "
        "on node1) | temperature 65 C (80, rank 1 on node2)");
}

TEST(GpuLine, LeavesOutWhatNoDriverTells) {
    EXPECT_EQ(format_gpus({{NAN, NAN, NAN, 1500, NAN, NAN}}, {"node1"}), " gpu: clock 1500 MHz");
    EXPECT_EQ(format_gpus({{NAN, NAN, NAN, NAN, NAN, NAN}}, {"node1"}), " gpu: the driver tells nothing");
}

} // namespace
} // namespace trireme::train
