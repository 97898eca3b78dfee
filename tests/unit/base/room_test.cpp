// require_room(): a file system says whether it has the bytes, and gets them back.
#include <gtest/gtest.h>

#include <filesystem>
#include <unistd.h>

#include "trireme/base/file.hpp"

namespace trireme {

namespace {

namespace fs = std::filesystem;

TEST(RequireRoom, TakesNothingAndRefusesWhatNoDiskHas) {
    const fs::path directory = fs::temp_directory_path() / concat("trireme-room-", ::getpid());
    fs::create_directories(directory);
    require_room(directory, 4096);
    try {
        require_room(directory, std::int64_t{1} << 60);
        ADD_FAILURE() << "2^60 bytes were had";
    } catch (const Error& error) {
        EXPECT_EQ(error.category(), ErrorCategory::output);
        EXPECT_NE(error.message().find("in " + directory.string()), std::string::npos) << error.message();
    }
    EXPECT_TRUE(fs::is_empty(directory));
    fs::remove_all(directory);
}

TEST(RequireRoom, MissingDirectoryIsAnOutputError) {
    try {
        require_room("/nowhere/at/all", 1);
        FAIL() << "no error";
    } catch (const Error& error) {
        EXPECT_EQ(error.category(), ErrorCategory::output);
    }
}

} // namespace

} // namespace trireme
