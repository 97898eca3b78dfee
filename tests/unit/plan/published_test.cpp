// The cost model against runs that others have published, within 15 %: at least eight of the ten of Narayanan
// et al. 2021, at least six of the nine on H100s; and against ours. `make bench` prints every row.
#include <cmath>
#include <gtest/gtest.h>

#include "support/published_runs.hpp"

namespace trireme::test {
namespace {

constexpr double kBound =
    0.15; // asked of the planner; nobody's run-to-run variation is known better than 5 %

std::string within_bound(const std::vector<Comparison>& rows, int& count) {
    std::string text;
    count = 0;
    for (const Comparison& row : rows) {
        count += std::fabs(row.error()) <= kBound ? 1 : 0;
        text += concat(row.run.name, ": published ", row.run.tflops, ", predicted ", row.tflops, "\n");
    }
    return text;
}

TEST(PublishedRuns, TenOf2021) {
    int count = 0;
    const std::vector<Comparison> rows = compare_narayanan_2021();
    ASSERT_EQ(rows.size(), 10U);
    const std::string text = within_bound(rows, count);
    EXPECT_GE(count, 8) << text;
}

TEST(PublishedRuns, NineOnH100) {
    int count = 0;
    const std::vector<Comparison> rows = compare_megatron_h100();
    ASSERT_EQ(rows.size(), 9U);
    const std::string text = within_bound(rows, count);
    EXPECT_GE(count, 6) << text;
}

// The h200 preset was fitted to these runs, 6.4 % off at most: a model that no longer bears all of them shows
// here.
TEST(PublishedRuns, OursOnH200) {
    for (const Comparison& row : compare_own_h200())
        EXPECT_LE(std::fabs(row.error()), 0.10)
            << row.run.name << ", " << row.run.setup.grid.text() << ": measured " << row.run.tflops
            << ", predicted " << row.tflops;
}

} // namespace
} // namespace trireme::test
