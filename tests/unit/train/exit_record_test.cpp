// SAVE/last_exit, letter by letter: job scripts read it.
#include <gtest/gtest.h>

#include <filesystem>
#include <unistd.h>

#include "trireme/base/file.hpp"
#include "trireme/train/exit_record.hpp"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

class ExitRecordTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = (fs::temp_directory_path() / "trireme-exit-XXXXXX").string();
        directory_ = mkdtemp(name.data());
    }
    void TearDown() override { fs::remove_all(directory_); }
    std::string content() const { return read_file(directory_ / "last_exit", ErrorCategory::data); }
    fs::path directory_;
};

TEST_F(ExitRecordTest, SaysWhy) {
    ExitRecord record(directory_, cluster::SlurmJob{"4711", 2, {}});
    record.reached(1200);
    record.write("signal", 75, "USR1");
    EXPECT_EQ(content(), "reason=signal\nsignal=USR1\niteration=1200\nexit=75\njob=4711\nattempt=2\n");
    record.write("iterations", 0);
    EXPECT_EQ(content(), "reason=iterations\nsignal=\niteration=1200\nexit=0\njob=4711\nattempt=2\n");
}

TEST_F(ExitRecordTest, WithoutSlurmAndOfErrors) {
    ExitRecord record(directory_, std::nullopt);
    record.write_error(5); // before the directory is known to be this run's
    EXPECT_FALSE(std::filesystem::exists(directory_ / "last_exit"));
    record.own();
    record.write_error(5);
    EXPECT_EQ(content(), "reason=error\nsignal=\niteration=0\nexit=5\njob=\nattempt=0\n");
    record.clear();
    EXPECT_FALSE(fs::exists(directory_ / "last_exit"));
    record.clear();
}

TEST_F(ExitRecordTest, NoDirectoryNoRecord) {
    const ExitRecord absent(directory_ / "absent", std::nullopt);
    absent.clear();
    absent.write_error(2);
    EXPECT_FALSE(fs::exists(directory_ / "absent"));
    EXPECT_THROW(absent.write("iterations", 0), Error);
    ExitRecord("", std::nullopt).write("iterations", 0);
}

} // namespace
} // namespace trireme::train
