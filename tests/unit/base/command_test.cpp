// Other programs: what they print, how they end, and which kind of file system holds a path.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "trireme/base/command.hpp"
#include "trireme/base/file_system.hpp"

namespace trireme {
namespace {

TEST(Command, PrintsOrNothing) {
    EXPECT_EQ(output_of({"printf", "%s-%s", "a b", "c"}, 10), "a b-c");
    EXPECT_EQ(output_of({"sh", "-c", "echo much; echo no >&2; exit 3"}, 10), std::nullopt);
    EXPECT_EQ(output_of({"a-program-that-is-not-there"}, 10), std::nullopt);
    EXPECT_EQ(output_of({"sleep", "1000"}, 0.05), std::nullopt); // it does not outlive its time
    EXPECT_EQ(output_of({"head", "-c", "300000", "/dev/zero"}, 10)->size(), 300000u);
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

    // Both streams at once, each more than a pipe holds.
    const CommandEnd loud =
        run_command({"sh", "-c", "head -c 300000 /dev/zero >&2; head -c 400000 /dev/zero"}, 10);
    EXPECT_TRUE(loud.good());
    EXPECT_EQ(loud.output.size(), 400000u);
    EXPECT_EQ(loud.errors.size(), 300000u);
}

TEST(Command, DoesNotOutliveItsTime) {
    const auto start = std::chrono::steady_clock::now();
    const CommandEnd late = run_command({"sh", "-c", "exec sleep 1000"}, 0.05);
    EXPECT_EQ(late.exit_code, std::nullopt);
    EXPECT_EQ(late.complaint(), "sh: no end after 0.05 s");
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(100));
}

TEST(FileSystem, IsNamed) {
    EXPECT_EQ(file_system_type("/proc"), "proc");
    EXPECT_EQ(file_system_type("/proc/self"), "proc");
    EXPECT_NE(file_system_type(std::filesystem::temp_directory_path()), "proc");
    EXPECT_EQ(file_system_type("/no/such/path"), "");
}

} // namespace
} // namespace trireme
