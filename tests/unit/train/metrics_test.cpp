// metrics.jsonl: a fresh start keeps what another training wrote, a resumed one goes on in the same file.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

#include "train/metrics.hpp"
#include "trireme/base/error.hpp"

namespace trireme::train {

namespace {

namespace fs = std::filesystem;

class Metrics : public ::testing::Test {
  protected:
    Metrics() : directory_(fs::temp_directory_path() / concat("trireme-metrics-", ::getpid())) {
        fs::create_directories(directory_);
    }
    ~Metrics() override { fs::remove_all(directory_); }

    std::string content(const std::string& name) const {
        std::ifstream file(directory_ / name);
        std::ostringstream text;
        text << file.rdbuf();
        return text.str();
    }
    void run(MetricsStart start, const std::string& line) const { MetricsFile(directory_, start).add(line); }

    fs::path directory_;
};

TEST_F(Metrics, FreshStartKeepsOlderFiles) {
    for (const char* line : {"one", "two", "three"})
        run(MetricsStart::fresh, line);
    EXPECT_EQ(content("metrics.jsonl.1"), "one\n");
    EXPECT_EQ(content("metrics.jsonl.2"), "two\n");
    EXPECT_EQ(content("metrics.jsonl"), "three\n");
}

TEST_F(Metrics, ResumedStartAppends) {
    run(MetricsStart::resumed, "one");
    run(MetricsStart::resumed, "two");
    EXPECT_EQ(content("metrics.jsonl"), "one\ntwo\n");
    EXPECT_FALSE(fs::exists(directory_ / "metrics.jsonl.1"));
}

TEST_F(Metrics, LineIsOutBeforeTheNext) {
    MetricsFile file(directory_, MetricsStart::fresh);
    file.add("one");
    EXPECT_EQ(content("metrics.jsonl"), "one\n");
    file.add("two");
    EXPECT_EQ(content("metrics.jsonl"), "one\ntwo\n");
}

// A machine that dies in the middle of a line leaves a part of it.
TEST_F(Metrics, ResumedStartGoesOnBehindTheLastWholeLine) {
    std::ofstream(directory_ / "metrics.jsonl") << "one\ntwo\nthr";
    run(MetricsStart::resumed, "three");
    EXPECT_EQ(content("metrics.jsonl"), "one\ntwo\nthree\n");
    std::ofstream(directory_ / "metrics.jsonl") << "thr";
    run(MetricsStart::resumed, "one");
    EXPECT_EQ(content("metrics.jsonl"), "one\n");
}

// Of a line that does not fit nothing is left, and the next one that does is whole.
TEST_F(Metrics, LineThatDoesNotFitLeavesTheOthersWhole) {
    MetricsFile file(directory_, MetricsStart::fresh);
    file.add("one");
    struct ::rlimit before {};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    struct ::rlimit small = before;
    small.rlim_cur = 10;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    EXPECT_THROW(file.add("a line of more than ten bytes"), Error);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    std::signal(SIGXFSZ, handler);
    EXPECT_EQ(content("metrics.jsonl"), "one\n");
    file.add("two");
    EXPECT_EQ(content("metrics.jsonl"), "one\ntwo\n");
}

TEST_F(Metrics, FileThatCannotBeWrittenIsAnOutputError) {
    try {
        MetricsFile(directory_ / "none", MetricsStart::fresh);
        FAIL() << "no error";
    } catch (const Error& error) {
        EXPECT_EQ(error.category(), ErrorCategory::output);
        EXPECT_NE(error.message().find((directory_ / "none" / "metrics.jsonl").string()), std::string::npos);
    }
}

// /dev/full takes nothing: a full disk.
TEST_F(Metrics, FullDiskIsAnOutputError) {
    if (!fs::exists("/dev/full"))
        GTEST_SKIP() << "needs /dev/full";
    fs::create_symlink("/dev/full", directory_ / "metrics.jsonl");
    MetricsFile file(directory_, MetricsStart::resumed);
    try {
        file.add("one");
        FAIL() << "no error";
    } catch (const Error& error) {
        EXPECT_EQ(error.category(), ErrorCategory::output);
        EXPECT_NE(error.message().find("No space left on device"), std::string::npos) << error.message();
    }
}

} // namespace

} // namespace trireme::train
