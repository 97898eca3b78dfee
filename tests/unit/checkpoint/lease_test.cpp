// The lease: one holder at a time, and no lease outlives its holder for long.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <csignal>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "support.hpp"
#include "trireme/checkpoint/lease.hpp"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using test::error_of;
using test::ScratchDirectory;
using test::write_text;

constexpr LeaseTimes kShort{milliseconds(20), milliseconds(400)};
const auto kSilent = [](const std::string&) {};

std::string text_of(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Lease, ASecondHolderIsRefusedUntilTheFirstIsGone) {
    const ScratchDirectory save;
    {
        const Lease lease(save.path(), kSilent, kShort);
        lease.require_held();
        const std::string message = error_of([&] { const Lease second(save.path(), kSilent, kShort); });
        EXPECT_NE(message.find("another job saves into " + save.path().string()), std::string::npos)
            << message;
        EXPECT_NE(message.find(concat("process ", ::getpid())), std::string::npos) << message;
        lease.require_held();
    }
    EXPECT_TRUE(fs::is_empty(save.path()));
    const Lease again(save.path(), kSilent, kShort);
    again.require_held();
}

// A process that holds the lease is killed: the next one does not wait.
TEST(Lease, OfAKilledProcessIsTakenOver) {
    const ScratchDirectory save;
    std::array<int, 2> ready{};
    ASSERT_EQ(::pipe(ready.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        const Lease lease(save.path(), kSilent, kShort);
        static_cast<void>(::write(ready[1], "x", 1) == 1);
        for (;;)
            ::pause();
    }
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    EXPECT_NE(
        error_of([&] { const Lease lease(save.path(), kSilent, kShort); }).find(concat("process ", child)),
        std::string::npos);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    std::string said;
    const Lease lease(
        save.path(), [&](const std::string& text) { said += text; }, LeaseTimes{});
    EXPECT_NE(said.find("was left behind by process"), std::string::npos) << said;
    lease.require_held();
}

// A holder on another host can only be watched.
TEST(Lease, OfAnotherHostIsWatched) {
    const ScratchDirectory save;
    const fs::path path = save.path() / "lease";
    const std::string foreign = "beat=000000000001\nhost=elsewhere\njob=77\npid=5\n";
    write_text(path, foreign);
    std::string said;
    const auto say = [&](const std::string& text) { said += text + "\n"; };
    { const Lease lease(save.path(), say, kShort); }
    EXPECT_NE(said.find("is held by job 77 (process 5 on elsewhere): waiting"), std::string::npos) << said;
    EXPECT_NE(said.find("taken over"), std::string::npos) << said;

    write_text(path, foreign);
    std::atomic<bool> stop = false;
    std::thread holder([&] {
        for (int beat = 2; !stop; ++beat) {
            std::this_thread::sleep_for(milliseconds(20));
            write_text(save.path() / "next", concat("beat=", beat, "\nhost=elsewhere\njob=77\npid=5\n"));
            fs::rename(save.path() / "next", path);
        }
    });
    const std::string message = error_of([&] { const Lease lease(save.path(), kSilent, kShort); });
    stop = true;
    holder.join();
    EXPECT_NE(message.find("job 77 (process 5 on elsewhere)"), std::string::npos) << message;
}

TEST(Lease, TheSameSlurmJobStartedAgainDoesNotWait) {
    const ScratchDirectory save;
    write_text(save.path() / "lease", "beat=000000000001\nhost=elsewhere\njob=77\npid=5\nrestarts=0\n");
    ::setenv("SLURM_JOB_ID", "77", 1);
    ::setenv("SLURM_RESTART_COUNT", "1", 1);
    std::string said;
    {
        const Lease lease(
            save.path(), [&](const std::string& text) { said += text; }, LeaseTimes{});
    }
    ::unsetenv("SLURM_JOB_ID");
    ::unsetenv("SLURM_RESTART_COUNT");
    EXPECT_EQ(said.find("waiting"), std::string::npos) << said;
}

// As on a disk that is full: what could not be written does not keep the next job waiting.
TEST(Lease, OneThatCannotBeWrittenIsNotLeftBehind) {
    const ScratchDirectory save;
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit nothing{0, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &nothing), 0);
    const std::string message = error_of([&] { const Lease lease(save.path(), kSilent, kShort); });
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    EXPECT_NE(message.find("cannot write " + (save.path() / "lease").string()), std::string::npos) << message;
    EXPECT_TRUE(fs::is_empty(save.path()));
}

TEST(Lease, OneThatWasTakenOverIsNoticed) {
    const ScratchDirectory save;
    const fs::path path = save.path() / "lease";
    {
        const Lease lease(save.path(), kSilent, kShort);
        write_text(save.path() / "next", "beat=000000000000\nhost=elsewhere\njob=78\npid=9\n");
        fs::rename(save.path() / "next", path);
        EXPECT_NE(error_of([&] { lease.require_held(); }).find("job 78 (process 9 on elsewhere)"),
                  std::string::npos);
    }
    EXPECT_NE(text_of(path).find("job=78"), std::string::npos) << "the other's lease stays";
}

} // namespace
} // namespace trireme::checkpoint
