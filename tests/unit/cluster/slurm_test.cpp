// What Slurm tells a task, from made-up environments, and squeue's spellings of a time (squeue(1), field %L).
#include <gtest/gtest.h>

#include <map>

#include "trireme/cluster/slurm.hpp"

namespace trireme::cluster {
namespace {

std::optional<SlurmJob> job_of(std::map<std::string, std::string> variables) {
    return find_slurm_job([&](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
    });
}

TEST(Slurm, AJobIsKnownByItsNumber) {
    EXPECT_FALSE(job_of({}));
    EXPECT_FALSE(job_of({{"SLURM_JOB_ID", ""}}));
    const std::optional<SlurmJob> plain = job_of({{"SLURM_JOB_ID", "4711"}});
    ASSERT_TRUE(plain);
    EXPECT_EQ(plain->id, "4711");
    EXPECT_EQ(plain->restarts, 0);
    EXPECT_FALSE(plain->end_time);
    const std::optional<SlurmJob> requeued = job_of(
        {{"SLURM_JOB_ID", "4711"}, {"SLURM_RESTART_COUNT", "3"}, {"SLURM_JOB_END_TIME", "1796000000"}});
    EXPECT_EQ(requeued->restarts, 3);
    EXPECT_EQ(requeued->end_time, 1796000000);
    EXPECT_FALSE(job_of({{"SLURM_JOB_ID", "1"}, {"SLURM_JOB_END_TIME", "soon"}})->end_time);
}

TEST(Slurm, TimeLeftInAllItsSpellings) {
    EXPECT_EQ(parse_time_left("0:00"), 0);
    EXPECT_EQ(parse_time_left("4:59"), 299);
    EXPECT_EQ(parse_time_left("59:59"), 3599);
    EXPECT_EQ(parse_time_left("1:00:00"), 3600);
    EXPECT_EQ(parse_time_left("23:59:59"), 86399);
    EXPECT_EQ(parse_time_left("1-00:00:00"), 86400);
    EXPECT_EQ(parse_time_left("30-12:00:01"), 30 * 86400 + 12 * 3600 + 1);
    for (const char* text :
         {"", "UNLIMITED", "NOT_SET", "INVALID", "12", "1-00", "1-0:0", "a:b", "1:2:3:4", "1-2-3:4:5"})
        EXPECT_EQ(parse_time_left(text), std::nullopt) << text;
}

} // namespace
} // namespace trireme::cluster
