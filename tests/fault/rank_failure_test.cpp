// What a job does when one rank hangs, throws or dies: real mpirun jobs of this same program, started as
// children. A child is this program with TRIREME_FAULT=what set; it runs as a trireme program's main() does.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "trireme/comm/phase.hpp"
#include "trireme/comm/runtime.hpp"
#include "trireme/storage/file.hpp"

namespace trireme::comm {

namespace {

constexpr double kTimeoutSeconds = 2.0; // of the children's watchdogs
constexpr double kLongSeconds = 600;    // of those that have the usual limit

[[noreturn]] void sleep_forever() {
    for (;;)
        std::this_thread::sleep_for(std::chrono::hours(1));
}

void do_fault(const std::string& fault, Runtime& runtime) {
    const int rank = runtime.rank();
    const Error full(ErrorCategory::output, "cannot write \"part\"", {"try: another disk"});
    if (fault == "hang") {
        set_iteration(12);
        const PhaseScope phase("backward", 5);
        if (rank == 1)
            sleep_forever();
    } else if (fault == "stopped") {
        if (rank == 1)
            raise(SIGSTOP);
    } else if (fault == "deadlock") { // ranks wait in different groups
        if (rank == 0)
            runtime.world().all_gather("x");
    } else if (fault == "throw") {
        if (rank == 2)
            throw full;
    } else if (fault == "throw everywhere") { // without agreeing
        throw full;
    } else if (fault == "kill") {
        if (rank == 1)
            raise(SIGKILL);
    } else if (fault.starts_with("a long limit: kill ")) { // and the ranks
        set_iteration(7);
        const PhaseScope phase("backward", 5);
        if (fault.find(concat(" ", rank)) != std::string::npos)
            raise(SIGKILL);
        runtime.world().barrier();
    } else if (fault == "kill, with a handler") { // the launcher sends TERM to the others
        std::signal(SIGTERM, [](int) { note_end_signal(); });
        runtime.world().barrier();
        set_iteration(7);
        const PhaseScope phase("backward", 5);
        if (rank == 1)
            raise(SIGKILL);
        runtime.world().barrier();
    } else if (fault == "TERM to all") { // who all live
        std::signal(SIGTERM, [](int) { note_end_signal(); });
        runtime.world().barrier();
        raise(SIGTERM);
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    } else if (fault == "agree one") {
        agree(runtime.world(), [&] {
            if (rank == 2)
                throw full;
        });
    } else if (fault == "agree all") {
        agree(runtime.world(), [&] { throw full; });
    } else if (fault == "agree none") {
        agree(runtime.world(), [] {});
    } else if (fault == "throw with file" ||
               fault == "agree with file") { // while all hold a shared file open
        storage::File file = storage::File::create(std::getenv("TRIREME_FAULT_FILE"), runtime.world());
        const PhaseScope phase("save");
        if (fault == "throw with file" && rank == 2)
            throw full;
        if (fault == "agree with file")
            agree(runtime.world(), [&] { throw full; });
        runtime.world().barrier();
    } else if (fault == "suspended") { // all, for longer than the limit, while three wait for the last
        const pid_t rank_process = getpid();
        if (fork() == 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(500));
            kill(rank_process, SIGSTOP);
            std::this_thread::sleep_for(std::chrono::milliseconds(5000));
            kill(rank_process, SIGCONT);
            _exit(0);
        }
        if (rank == 3)
            std::this_thread::sleep_for(std::chrono::milliseconds(1000));
    } else if (fault == "slow") { // slower than a poll, faster than the limit
        if (rank == 1)
            std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    }
    runtime.world().barrier();
}

int child_main(const std::string& fault) {
    int argc = 0;
    char** argv = nullptr;
    Runtime runtime(argc, argv);
    try {
        const Watchdog watchdog(runtime, fault.starts_with("a long limit") ? kLongSeconds : kTimeoutSeconds);
        runtime.world().barrier();
        do_fault(fault, runtime);
    } catch (const Error& error) {
        return runtime.report(error);
    }
    return 0;
}

// A child never comes to GoogleTest's main().
[[maybe_unused]] const bool is_child = [] {
    if (const char* fault = std::getenv("TRIREME_FAULT"))
        std::exit(child_main(fault));
    return false;
}();

struct Outcome {
    int exit_code = -1;
    double seconds = 0;
    std::string output; // stdout and stderr of all ranks
};

int count(const std::string& text, const std::string& part) {
    int found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
        ++found;
    return found;
}

// kLauncherGoesOn where mpirun is to leave the others alone when one dies or aborts.
constexpr const char* kLauncherGoesOn = " --enable-recovery";

Outcome run_job(const std::string& fault, int ranks = 4, const std::string& options = "") {
    const char* mpirun = std::getenv("MPIRUN");
    std::string path = (std::filesystem::temp_directory_path() / "trireme-fault-XXXXXX").string();
    const int file = mkstemp(path.data());
    const auto start = std::chrono::steady_clock::now();
    const pid_t child = fork();
    if (child == 0) {
        setenv("TRIREME_FAULT", fault.c_str(), 1);
        setenv("TRIREME_FAULT_FILE", (path + ".h5").c_str(), 1);
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
        dup2(file, STDOUT_FILENO);
        dup2(file, STDERR_FILENO);
        const std::string command =
            concat("exec timeout 60 ", mpirun != nullptr && *mpirun ? mpirun : "mpirun", options,
                   " --oversubscribe -np ", ranks, " /proc/", getppid(), "/exe < /dev/null");
        execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
        _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    Outcome outcome;
    outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    outcome.output = text.str();
    close(file);
    unlink(path.c_str());
    unlink((path + ".h5").c_str());
    return outcome;
}

// The bounds are in seconds by nature; starting mpirun on a loaded machine is allowed for.
constexpr double kStartSeconds = 5;

TEST(RankFailure, AHangingRankIsNamed) {
    const Outcome job = run_job("hang");
    EXPECT_EQ(job.exit_code, 5) << job.output;
    EXPECT_EQ(count(job.output, "trireme: error:"), 1) << job.output;
    EXPECT_EQ(count(job.output, "error: rank 1 on "), 1) << job.output;
    EXPECT_NE(job.output.find("is behind: in phase 'backward 5', iteration 12, for "), std::string::npos)
        << job.output;
    EXPECT_NE(job.output.find("; 3 ranks wait in barrier of the world group\n"), std::string::npos)
        << job.output;
    EXPECT_LT(job.seconds, kStartSeconds + kTimeoutSeconds + 5);
}

TEST(RankFailure, AStoppedRankIsSaidNotToAnswer) {
    const Outcome job = run_job("stopped");
    EXPECT_EQ(job.exit_code, 5) << job.output;
    EXPECT_EQ(count(job.output, "trireme: error:"), 1) << job.output;
    EXPECT_EQ(count(job.output, "is behind: does not answer"), 1) << job.output;
    EXPECT_LT(job.seconds, kStartSeconds + kTimeoutSeconds + 5);
}

TEST(RankFailure, RanksThatWaitForOneAnotherAreListed) {
    const Outcome job = run_job("deadlock");
    EXPECT_EQ(job.exit_code, 5) << job.output;
    EXPECT_EQ(count(job.output,
                    "error: all 4 ranks wait for one another; 3 ranks wait in barrier of the world group"),
              1)
        << job.output;
    EXPECT_EQ(count(job.output, "rank 0 waits in exchange of values of the world group"), 1) << job.output;
}

TEST(RankFailure, OneRankThatThrowsEndsAll) {
    const Outcome job = run_job("throw");
    EXPECT_EQ(job.exit_code, 74) << job.output;
    EXPECT_EQ(count(job.output, "trireme: error: cannot write"), 1) << job.output;
    EXPECT_LT(job.seconds, kStartSeconds + 5);
}

TEST(RankFailure, TheSameErrorOnAllRanksIsPrintedOnce) {
    const Outcome job = run_job("throw everywhere");
    EXPECT_EQ(job.exit_code, 74) << job.output;
    EXPECT_EQ(count(job.output, "trireme: error: cannot write"), 1) << job.output;
    EXPECT_LT(job.seconds, kStartSeconds + 5);
}

TEST(RankFailure, AKilledRankEndsAll) {
    const Outcome job = run_job("kill");
    EXPECT_NE(job.exit_code, 0) << job.output;
    EXPECT_NE(job.exit_code, 124) << job.output; // the time-out
    EXPECT_LT(job.seconds, kStartSeconds + 5);
}

TEST(RankFailure, AskedToEndWhileARankIsGoneTheOthersSayWhatTheyDid) {
    const Outcome job = run_job("kill, with a handler");
    EXPECT_NE(job.exit_code, 0) << job.output;
    EXPECT_NE(job.exit_code, 124) << job.output;
    EXPECT_EQ(count(job.output, "trireme: error:"), 1) << job.output;
    EXPECT_EQ(count(job.output, "the job is being ended, and rank 1 ("), 1) << job.output;
    EXPECT_EQ(count(job.output,
                    "ranks 0, 2, 3 were in phase 'backward 5', iteration 7, waiting in barrier of the "
                    "world group"),
              1)
        << job.output;
    EXPECT_LT(job.seconds, kStartSeconds + 5);
}

// The limit on waiting is ten minutes there, and the others end within one. mpirun's exit code is then its
// own.
TEST(RankFailure, ADeadRankIsMissedWhereTheLauncherGoesOn) {
    const Outcome job = run_job("a long limit: kill 1", 4, kLauncherGoesOn);
    EXPECT_NE(job.exit_code, 124) << job.output; // the time-out
    EXPECT_EQ(count(job.output, "trireme: error:"), 1) << job.output;
    EXPECT_EQ(count(job.output, "error: the job is being ended, and rank 1 ("), 1) << job.output;
    EXPECT_EQ(count(job.output,
                    "ranks 0, 2, 3 were in phase 'backward 5', iteration 7, waiting in barrier of the "
                    "world group"),
              1)
        << job.output;
    EXPECT_LT(job.seconds, 60);
}

// Over TCP, where what goes to a dead rank is never sent: two ranks miss one each, and one of them says so.
TEST(RankFailure, TwoDeadRanksAreMissedByOneMessage) {
    const Outcome job = run_job("a long limit: kill 1 3", 4, concat(kLauncherGoesOn, " --mca btl tcp,self"));
    EXPECT_NE(job.exit_code, 124) << job.output;
    EXPECT_EQ(count(job.output, "trireme: error:"), 1) << job.output;
    EXPECT_EQ(count(job.output, "error: the job is being ended, and ranks 1, 3 ("), 1) << job.output;
    EXPECT_LT(job.seconds, 60);
}

TEST(RankFailure, WhereTheLauncherGoesOnTheOthersLeaveToo) {
    for (const char* fault : {"hang", "stopped"}) {
        const Outcome job = run_job(fault, 4, kLauncherGoesOn);
        EXPECT_NE(job.exit_code, 124) << job.output;
        EXPECT_EQ(count(job.output, "trireme: error:"), 1) << job.output;
        EXPECT_EQ(count(job.output, "is behind: "), 1) << job.output;
    }
}

TEST(RankFailure, AskedToEndWhileAllLiveNothingIsSaid) {
    const Outcome job = run_job("TERM to all");
    EXPECT_EQ(job.exit_code, 0) << job.output;
    EXPECT_EQ(job.output, "");
}

TEST(RankFailure, AgreedErrorsLeaveInOrder) {
    const Outcome one = run_job("agree one");
    EXPECT_EQ(one.exit_code, 74) << one.output;
    EXPECT_EQ(count(one.output, "trireme: error: cannot write"), 1) << one.output;
    EXPECT_EQ(count(one.output, "on rank 2 ("), 1) << one.output;
    EXPECT_EQ(count(one.output, "MPI_ABORT"), 0) << one.output;

    const Outcome all = run_job("agree all");
    EXPECT_EQ(all.exit_code, 74) << all.output;
    EXPECT_EQ(count(all.output, "trireme: error: cannot write"), 1) << all.output;
    EXPECT_EQ(count(all.output, "on rank"), 0) << all.output;
}

TEST(RankFailure, AnOpenSharedFileDoesNotHoldUpTheEnd) {
    for (const char* fault : {"throw with file", "agree with file"}) {
        const Outcome job = run_job(fault);
        EXPECT_EQ(job.exit_code, 74) << job.output;
        EXPECT_EQ(count(job.output, "trireme: error: cannot write"), 1) << job.output;
        EXPECT_EQ(count(job.output, "Segmentation"), 0) << job.output;
        EXPECT_LT(job.seconds, kStartSeconds + 5);
    }
}

TEST(RankFailure, NothingWrongSaysNothing) {
    for (const char* fault : {"agree none", "slow", "suspended"}) {
        const Outcome job = run_job(fault);
        EXPECT_EQ(job.exit_code, 0) << job.output;
        EXPECT_EQ(job.output, "") << fault;
    }
}

} // namespace

} // namespace trireme::comm
