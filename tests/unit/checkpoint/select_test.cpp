// Which checkpoint is taken, and what is said where one is passed over.
#include <gtest/gtest.h>

#include <map>

#include "support.hpp"
#include "trireme/checkpoint/select.hpp"
#include "trireme/checkpoint/verify.hpp"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::make_checkpoint;
using test::ScratchDirectory;
using test::write_text;

// 10, 20 and 30, the marker at 20.
class Select : public testing::Test {
  protected:
    Select() {
        for (const std::int64_t iteration : {10, 20, 30})
            make_checkpoint(directory.path(), iteration);
        mark("20\n");
    }
    void mark(const std::string& text) { write_text(directory.path() / kMarker, text); }
    std::string taken(const Wanted& wanted = {}) {
        selection = select(directory.path(), wanted);
        return selection.checkpoint ? selection.checkpoint->filename().string() : "none";
    }
    fs::path file(std::int64_t iteration, const std::string& name) {
        return directory.path() / iteration_name(iteration) / name;
    }
    ScratchDirectory directory;
    Selection selection;
};

TEST_F(Select, TheMarkersOne) {
    EXPECT_EQ(taken(), "iter_0000020");
    EXPECT_TRUE(selection.passed_over.empty());
    EXPECT_EQ(taken({.step = 30}), "iter_0000030");
    const State state = read_state(*select(directory.path(), {}).checkpoint);
    EXPECT_EQ(state.consumed_samples, 160);
    EXPECT_EQ(state.seed, 0xFEDCBA9876543210u);
    EXPECT_EQ(state.more_counters, (std::map<std::string, std::int64_t>{{"loss_scale", 65536}}));
    EXPECT_FALSE(state.has_optimizer);
}

TEST_F(Select, TheNewestEarlierOneThatIsWhole) {
    fs::remove(file(20, kIndexFile));
    EXPECT_EQ(taken(), "iter_0000010");
    ASSERT_EQ(selection.passed_over.size(), 1u);
    EXPECT_NE(selection.passed_over[0].reason.find("is not there"), std::string::npos);
    EXPECT_NE(error_of([&] { taken({.step = {}, .fall_back = FallBack::no}); }).find("iter_0000020 in"),
              std::string::npos);
    EXPECT_NE(error_of([&] { taken({.step = 20}); }).find("cannot be loaded"), std::string::npos);
    mark("40");
    EXPECT_EQ(taken(), "iter_0000030") << "a marker ahead of the files";
    fs::resize_file(file(30, stage_name(0)), fs::file_size(file(30, stage_name(0))) - 1);
    EXPECT_EQ(taken(), "iter_0000010");
    EXPECT_EQ(selection.passed_over.size(), 3u);
    write_text(file(10, kIndexFile), "rubbish");
    const std::string message = error_of([&] { taken(); });
    EXPECT_NE(message.find("no checkpoint in " + directory.path().string() + " can be loaded"),
              std::string::npos)
        << message;
    EXPECT_NE(message.find("iter_0000010: "), std::string::npos) << message;
}

TEST_F(Select, WhatCouldNotBeLoadedIsNotTakenAgain) {
    selection = select(directory.path(), {}, {{directory.path() / iteration_name(20), "a sum"}});
    EXPECT_EQ(selection.checkpoint->filename(), "iter_0000010");
    EXPECT_EQ(selection.passed_over.at(0).reason, "a sum");
}

TEST_F(Select, RubbishInTheMarkerIsAnError) {
    for (const char* text : {"", "iter_0000020", "20 30", "-1", "2e1", "Release"}) {
        mark(text);
        EXPECT_NE(error_of([&] { taken(); }).find("holds no iteration number"), std::string::npos) << text;
    }
}

TEST_F(Select, WithoutMarkerTheNewest) {
    fs::remove(directory.path() / kMarker);
    EXPECT_EQ(taken(), "iter_0000030");
    EXPECT_EQ(selection.passed_over.size(), 1u);
    EXPECT_NE(error_of([&] { taken({.step = {}, .fall_back = FallBack::no}); }), "");
    const ScratchDirectory empty;
    EXPECT_FALSE(select(empty.path(), {}).checkpoint);
    EXPECT_FALSE(select(empty.path() / "absent", {}).checkpoint);
}

TEST_F(Select, Release) {
    mark("release\n");
    EXPECT_NE(error_of([&] { taken(); }), "");
    fs::rename(directory.path() / iteration_name(30), directory.path() / "release");
    EXPECT_EQ(taken(), "release");
    EXPECT_TRUE(selection.release);
}

TEST_F(Select, ACheckpointUnderAnotherName) {
    fs::rename(directory.path() / iteration_name(10), directory.path() / iteration_name(40));
    mark("40");
    EXPECT_EQ(taken(), "iter_0000030");
}

// Each single bit of the index that is flipped is found or does no harm: what is read is either what was
// written, or an error.
TEST_F(Select, AnyBitOfTheIndex) {
    const fs::path path = directory.path() / iteration_name(20), index = path / kIndexFile;
    std::string bytes;
    {
        std::ifstream file(index, std::ios::binary);
        bytes.assign(std::istreambuf_iterator<char>(file), {});
    }
    int found = 0;
    for (std::size_t at = 0; at < bytes.size(); at += 13) {
        std::string changed = bytes;
        changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
        write_text(index, changed);
        Index read;
        const std::string error = error_of([&] { read = read_index(path); });
        if (!error.empty()) {
            ++found;
            continue;
        }
        ASSERT_EQ(read.state.iteration, 20) << at;
        ASSERT_EQ(read.state.consumed_samples, 160) << at;
        ASSERT_EQ(read.state.seed, 0xFEDCBA9876543210u) << at;
        ASSERT_EQ(read.state.options, "lr = 1\n") << at;
        ASSERT_EQ(read.contents.dataset(0), "/parameters/weight") << at;
    }
    EXPECT_GT(found, 100);
}

TEST_F(Select, VerifyNamesWhatIsWrong) {
    EXPECT_EQ(checkpoints_in(directory.path()).size(), 3u);
    const fs::path path = directory.path() / iteration_name(10);
    EXPECT_TRUE(verify(path).good());
    EXPECT_EQ(verify(path).bytes, 24);
    fs::remove(path / stage_name(0));
    ASSERT_EQ(verify(path).findings.size(), 1u);
    EXPECT_EQ(verify(path).findings[0].where, "stage_000.h5 /parameters/weight");
    // A file of another checkpoint in its place: the same names and shapes, other elements.
    fs::copy_file(file(30, stage_name(0)), path / stage_name(0));
    ASSERT_EQ(verify(path).findings.size(), 1u);
    EXPECT_NE(verify(path).findings[0].text().find("/parameters/weight elements 0 to 5: sum "),
              std::string::npos)
        << verify(path).findings[0].text();
    fs::remove(path / kIndexFile);
    EXPECT_EQ(verify(path).findings.size(), 1u);
}

// Made by the program that wrote version 1, see its README.md.
TEST(Version1, IsStillRead) {
    const Selection selection = select("tests/data/checkpoint_v1", {});
    ASSERT_TRUE(selection.checkpoint);
    const State state = read_state(*selection.checkpoint);
    EXPECT_EQ(state.iteration, 3);
    EXPECT_EQ(state.consumed_samples, 12);
    EXPECT_EQ(state.seed, 1234u);
    EXPECT_TRUE(state.has_optimizer);
    EXPECT_FALSE(state.has_master_weights);
    const Verdict verdict = verify(*selection.checkpoint);
    EXPECT_TRUE(verdict.good());
    EXPECT_FALSE(verdict.has_sums);
    EXPECT_EQ(verdict.format_version, 1);
}

} // namespace
} // namespace trireme::checkpoint
