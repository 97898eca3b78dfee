// Launchers and MPI libraries that fit and that do not, from the variables that each sets (taken down from
// Slurm 22.05 with --mpi=pmix, pmi2 and none, Open MPI 4.1 and MPICH's mpiexec).
#include <gtest/gtest.h>

#include <map>

#include "comm/launch.hpp"

namespace trireme::comm {

namespace {

using Map = std::map<std::string, std::string>;

Launch launched(const Map& variables) {
    return read_launch([&](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
    });
}

Map step(Map more) {
    more.insert({{"SLURM_JOB_ID", "7"},
                 {"SLURM_STEP_ID", "0"},
                 {"SLURM_PROCID", "3"},
                 {"SLURM_LOCALID", "1"},
                 {"SLURM_STEP_NUM_TASKS", "4"},
                 {"SLURM_STEP_NUM_NODES", "2"}});
    return more;
}

const MpiLibrary kDebian{"Open MPI v4.1.4", false}, kWithSlurmPmi{"Open MPI v4.1.4", true},
    kMpich{"MPICH Version: 4.0", false};

std::string offers() {
    return "pmix, pmi2, none";
}

std::string before(const Launch& launch, const MpiLibrary& library) {
    const std::optional<Error> error = check_before_start(launch, library, offers);
    return error ? error->message() : "fits";
}

std::string after(const Launch& launch, const MpiLibrary& library, int ranks) {
    const std::optional<Error> error = check_after_start(launch, library, ranks, offers);
    return error ? error->message() : "fits";
}

TEST(Launch, KnowsWhoStartedIt) {
    EXPECT_EQ(launched({}).starter, "alone");
    EXPECT_EQ(launched({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}}).starter, "alone") << "a batch script";
    const Launch in_step = launched(step({{"PMIX_RANK", "3"}}));
    EXPECT_EQ(in_step.starter, "srun");
    EXPECT_EQ(in_step.rank, 3);
    EXPECT_EQ(in_step.ranks, 4);
    EXPECT_TRUE(in_step.pmix && !in_step.pmi);
    // mpirun inside of a step starts what it starts, whatever Slurm's numbers are.
    const Launch nested =
        launched(step({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"PMIX_RANK", "0"}}));
    EXPECT_EQ(nested.starter, "mpirun");
    EXPECT_EQ(nested.ranks, 2);
    const Launch hydra = launched({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_FD", "5"}});
    EXPECT_EQ(hydra.starter, "mpiexec");
    EXPECT_EQ(hydra.ranks, 2);
    EXPECT_FALSE(launched(step({{"SLURM_STEP_NUM_TASKS", "many"}})).ranks);
}

TEST(Launch, BeforeMpiStarts) {
    EXPECT_EQ(before(launched(step({{"PMIX_RANK", "3"}})), kDebian), "fits");
    EXPECT_EQ(before(launched(step({{"PMI_RANK", "3"}})), kWithSlurmPmi), "fits");
    EXPECT_EQ(before(launched(step({{"PMI_RANK", "3"}})), kMpich), "fits");
    EXPECT_EQ(before(launched({}), kDebian), "fits");
    EXPECT_EQ(before(launched({{"SLURM_JOB_ID", "7"}}), kDebian), "fits");
    EXPECT_EQ(before(launched(step({{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}})), kDebian),
              "trireme: error: srun and this MPI do not understand each other: MPI cannot start\n"
              "  this program's MPI is Open MPI v4.1.4; srun offered PMI-1 or PMI-2\n"
              "  srun --mpi=list says here: pmix, pmi2, none\n"
              "  try: srun --mpi=pmix ..., or mpirun inside of salloc or sbatch\n");
    const std::optional<Error> none = check_before_start(launched(step({})), kDebian, offers);
    ASSERT_TRUE(none);
    EXPECT_EQ(none->details()[0], "this program's MPI is Open MPI v4.1.4; srun offered no PMI at all");
    EXPECT_EQ(none->exit_code(), 5);
    EXPECT_EQ(none->agreement().speaker, 0);
    EXPECT_EQ(none->agreement().ranks, 4);
}

TEST(Launch, AfterMpiHasStarted) {
    const Launch pmix = launched(step({{"PMIX_RANK", "3"}}));
    EXPECT_EQ(after(pmix, kDebian, 4), "fits");
    EXPECT_EQ(after(launched({}), kDebian, 1), "fits");
    EXPECT_EQ(after(launched(step({})), kMpich, 1),
              "trireme: error: srun started 4 processes, and each takes itself for the only one\n"
              "  this program's MPI is MPICH Version: 4.0; srun offered no PMI at all\n"
              "  srun --mpi=list says here: pmix, pmi2, none\n"
              "  try: srun --mpi=pmi2 ..., or mpirun inside of salloc or sbatch\n");
    EXPECT_EQ(after(launched({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}), kDebian, 1),
              "trireme: error: mpiexec started 2 processes, and each takes itself for the only one\n"
              "  this program's MPI is Open MPI v4.1.4; mpiexec offered PMI-1 or PMI-2\n"
              "  try: the mpirun that belongs to this MPI (make config shows which; module list)\n");
    EXPECT_NE(after(pmix, kDebian, 2).find("srun started 4 processes, and MPI sees 2\n"), std::string::npos);
}

TEST(Launch, KindsThatSrunLists) {
    EXPECT_EQ(kinds_of_pmi("MPI plugin types are...\n\tpmix\n\tnone\n\tcray_shasta\n\tpmi2\n"
                           "specific pmix plugin versions available: pmix_v4\n"),
              "pmix, none, cray_shasta, pmi2"); // 22.05's words
    EXPECT_EQ(kinds_of_pmi("srun: MPI types are...\nsrun: none\nsrun: openmpi\nsrun: pmi2\n"),
              "none, openmpi, pmi2");
    EXPECT_EQ(kinds_of_pmi(""), "");
    EXPECT_EQ(kinds_of_pmi("sh: 1: srun: not found\n"), "");
}

TEST(Launch, OtherNumbersAreSaid) {
    const Launch pmix = launched(step({{"PMIX_RANK", "3"}}));
    EXPECT_EQ(differences(pmix, 3, 1, 2), "");
    EXPECT_EQ(
        differences(pmix, 2, 0, 1),
        "rank 2 by MPI and 3 by Slurm, local rank 0 by MPI and 1 by Slurm, nodes 1 by MPI and 2 by Slurm");
    EXPECT_EQ(differences(launched({{"OMPI_COMM_WORLD_RANK", "0"}, {"SLURM_PROCID", "3"}}), 0, 0, 1), "");
}

} // namespace

} // namespace trireme::comm
