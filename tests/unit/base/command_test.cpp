// Other programs: what they print, how they end, and which kind of file system holds a path.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include "trireme/base/command.hpp"
#include "trireme/base/file_system.hpp"
#include "trireme/base/printable.hpp"

namespace trireme {
namespace {

TEST(Command, PrintsOrNothing) {
    EXPECT_EQ(output_of({"printf", "%s-%s", "a b", "c"}, 10), "a b-c");
    EXPECT_EQ(output_of({"sh", "-c", "echo much; echo no >&2; exit 3"}, 10), std::nullopt);
    EXPECT_EQ(output_of({"a-program-that-is-not-there"}, 10), std::nullopt);
    EXPECT_EQ(output_of({"sleep", "1000"}, 0.05), std::nullopt); // it does not outlive its time
}

TEST(Command, SaysHowItEnded) {
    const CommandEnd failed = run_command({"sh", "-c", "echo much; echo >&2; echo 'no way' >&2; exit 3"}, 10);
    EXPECT_EQ(failed.exit_code, 3);
    EXPECT_FALSE(failed.good());
    EXPECT_EQ(failed.output, "much\n");
    EXPECT_EQ(failed.errors, "\nno way\n");
    EXPECT_EQ(failed.complaint(), "no way");
    EXPECT_EQ(run_command({"sh", "-c", "echo here it is; exit 1"}, 10).complaint(), "here it is");
    EXPECT_EQ(run_command({"false"}, 10).complaint(), "exit code 1");

    const CommandEnd absent = run_command({"a-program-that-is-not-there"}, 10);
    EXPECT_EQ(absent.exit_code, std::nullopt);
    EXPECT_EQ(absent.complaint(), "a-program-that-is-not-there: No such file or directory");
    EXPECT_EQ(run_command({"sh", "-c", "kill -TERM $$"}, 10).complaint(), "sh: ended by signal 15");
    EXPECT_EQ(run_command({"/dev/null"}, 10).complaint(), "/dev/null: Permission denied");
    EXPECT_EQ(run_command({"/dev/null"}, 10).fate, CommandFate::not_started);
}

// Both streams, each more than a pipe and than what is kept; endlessly, until its time is up.
TEST(Command, MayFlood) {
    const CommandEnd loud = run_command(
        {"sh", "-c", "head -c 300000 /dev/zero | tr '\\0' e >&2; head -c 400000 /dev/zero | tr '\\0' o"}, 10);
    EXPECT_TRUE(loud.good());
    EXPECT_EQ(loud.output, std::string(64 << 10, 'o'));
    EXPECT_EQ(loud.errors, std::string(64 << 10, 'e'));
    EXPECT_EQ(loud.complaint(), std::string(297, 'e') + "...");

    const CommandEnd endless = run_command({"yes"}, 0.3);
    EXPECT_EQ(endless.fate, CommandFate::no_end);
    EXPECT_EQ(endless.output.size(), 65536u);
    EXPECT_EQ(endless.complaint(), "yes: no end after 0.3 s");
}

TEST(Command, ComplaintIsOneLineThatATerminalDoesNotObey) {
    EXPECT_EQ(run_command({"printf", "\\n \\033[2Jlfs:\\ta\\001b\\n"}, 10).complaint(), "?[2Jlfs: a?b");
    EXPECT_EQ(printable(" no\n\tway\x7f \xc3\xbc \r\n"), "no way? ??");
    EXPECT_EQ(printable("12345678", 8), "12345678");
    EXPECT_EQ(printable("123456789", 8), "12345...");
    EXPECT_EQ(printable(std::string_view("\0", 1)), "?");
    EXPECT_EQ(printable("  "), "");
}

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Whether a process of that number runs, be it ended and not yet waited for by its parent. In vain for some
// time.
bool goes(const std::string& number) {
    const auto start = std::chrono::steady_clock::now();
    for (std::string state; seconds_since(start) < 5;) {
        std::ifstream status("/proc/" + number + "/stat");
        std::string line;
        if (!std::getline(status, line) || line.find(") Z") != std::string::npos)
            return true;
        ::usleep(10000);
    }
    return false;
}

TEST(Command, DoesNotOutliveItsTime) {
    const auto start = std::chrono::steady_clock::now();
    const CommandEnd late = run_command({"sh", "-c", "exec sleep 1000"}, 0.05);
    EXPECT_EQ(late.fate, CommandFate::no_end);
    EXPECT_EQ(late.exit_code, std::nullopt);
    EXPECT_EQ(late.complaint(), "sh: no end after 0.05 s");
    // Nor by a child, nor by closing its output.
    const CommandEnd parent = run_command({"sh", "-c", "sleep 1000 & echo $!; wait"}, 0.5);
    EXPECT_EQ(parent.fate, CommandFate::no_end);
    EXPECT_TRUE(goes(parent.output.substr(0, parent.output.find('\n')))) << parent.output;
    EXPECT_EQ(run_command({"sh", "-c", "exec >&- 2>&-; exec sleep 1000"}, 0.05).fate, CommandFate::no_end);
    EXPECT_LT(seconds_since(start), 10);
}

// A wrapper starts something that stays and has its output open.
TEST(Command, AChildThatItLeavesBehindIsNotWaitedFor) {
    const auto start = std::chrono::steady_clock::now();
    const CommandEnd wrapper = run_command({"sh", "-c", "sleep 30 & echo $!; echo oh >&2; exit 4"}, 20);
    EXPECT_LT(seconds_since(start), 10);
    EXPECT_EQ(wrapper.exit_code, 4);
    EXPECT_EQ(wrapper.errors, "oh\n");
    const int left = std::stoi(wrapper.output);
    EXPECT_EQ(::kill(left, SIGTERM), 0) << "it was left alone";
    // One that goes on writing. What was written just before the end is read: a race, so it is run often.
    for (int i = 0; i < 20; ++i) {
        const CommandEnd flood = run_command({"sh", "-c", "yes & echo here >&2"}, 20);
        EXPECT_EQ(flood.exit_code, 0);
        EXPECT_EQ(flood.errors, "here\n");
    }
    EXPECT_LT(seconds_since(start), 10);
}

// A process that is stuck in the kernel cannot be had at will: one whose end there is no time to see stands
// for it.
TEST(Command, WhatDoesNotEndWhenKilledIsLeft) {
    const CommandEnd stuck = run_command({"sleep", "1000"}, {0.05, 0});
    EXPECT_EQ(stuck.fate, CommandFate::no_end);
    EXPECT_EQ(stuck.complaint(), "sleep: no end after 0.05 s, and it does not end when killed");
}

TEST(Command, WhereSigchldIsIgnoredItIsJudgedByItsWords) {
    const auto before = std::signal(SIGCHLD, SIG_IGN);
    const CommandEnd good = run_command({"sh", "-c", "sleep 0.05; echo 8; echo slow >&2"}, 10);
    const CommandEnd silent = run_command({"true"}, 10);
    const CommandEnd failed = run_command({"sh", "-c", "echo no >&2; exit 3"}, 10);
    const CommandEnd late = run_command({"sleep", "1000"}, 0.05);
    // The program finds it as usual, for its own children: signal 17 is not among those ignored.
    const CommandEnd own =
        run_command({"sed", "-n", "s/^SigIgn:.*\\(.\\)....$/\\1/p", "/proc/self/status"}, 10);
    std::signal(SIGCHLD, before);
    EXPECT_EQ(good.fate, CommandFate::lost_code);
    EXPECT_EQ(good.exit_code, std::nullopt);
    EXPECT_TRUE(good.good());
    EXPECT_EQ(good.output, "8\n");
    EXPECT_EQ(good.errors, "slow\n");
    EXPECT_TRUE(silent.good());
    EXPECT_FALSE(failed.good());
    EXPECT_EQ(failed.complaint(), "no");
    EXPECT_EQ(late.complaint(), "sleep: no end after 0.05 s");
    ASSERT_NE(own.output, "");
    EXPECT_EQ(std::stoi(own.output, nullptr, 16) & 1, 0) << own.output;
}

TEST(FileSystem, IsNamed) {
    EXPECT_EQ(file_system_type("/proc"), "proc");
    EXPECT_EQ(file_system_type("/proc/self"), "proc");
    EXPECT_NE(file_system_type(std::filesystem::temp_directory_path()), "proc");
    EXPECT_EQ(file_system_type("/no/such/path"), "");
}

} // namespace
} // namespace trireme
