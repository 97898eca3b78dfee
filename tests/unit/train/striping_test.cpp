// What lfs is told and asked, and what is said of its answers. A function stands in for the program.
#include "train/striping.hpp"

#include <gtest/gtest.h>

#include <map>

namespace trireme::train {
namespace {

namespace fs = std::filesystem;
using Command = std::vector<std::string>;

// Answers by the first word after `lfs` and the flag: "getstripe -c". What has no answer fails.
struct FakeLfs {
    std::map<std::string, CommandEnd> answers;
    std::vector<Command> calls;
    std::vector<double> limits;

    static CommandEnd says(const std::string& text) { return {0, text + "\n", ""}; }
    static CommandEnd hangs() { return {std::nullopt, "", "lfs: no end after 7 s", CommandFate::no_end}; }
    static CommandEnd fails(int code, const std::string& text) { return {code, "", text + "\n"}; }

    Striping striping(const Stripes& asked, int ranks_of_stage = 1, const fs::path& save = "/proc") {
        return {save, asked, ranks_of_stage, {}, [this](const Command& command, double seconds) {
                    limits.push_back(seconds);
                    calls.push_back(command);
                    EXPECT_EQ(command.at(0), "lfs");
                    const bool asks = command.at(1) == "getstripe";
                    const auto answer = answers.find(asks ? "getstripe " + command.at(3) : command.at(1));
                    return answer == answers.end() ? fails(25, "lfs: inappropriate ioctl") : answer->second;
                }};
    }
};

FakeLfs on_lustre(const std::string& count, const std::string& size) {
    return {{{"getstripe -c", FakeLfs::says(count)},
             {"getstripe -S", FakeLfs::says(size)},
             {"setstripe", FakeLfs::says("")}},
            {},
            {}};
}

TEST(Striping, Commands) {
    EXPECT_EQ(setstripe_command({8, 4194304}, "/s/a b"),
              (Command{"lfs", "setstripe", "-c", "8", "-S", "4194304", "/s/a b"}));
    EXPECT_EQ(setstripe_command({-1, 0}, "/s"), (Command{"lfs", "setstripe", "-c", "-1", "/s"}));
    EXPECT_EQ(setstripe_command({0, 65536}, "/s"), (Command{"lfs", "setstripe", "-S", "65536", "/s"}));
    EXPECT_EQ(getstripe_command("-S", "/s"), (Command{"lfs", "getstripe", "-d", "-S", "/s"}));
}

TEST(Striping, AppliedAndReadBackOnce) {
    FakeLfs lfs = on_lustre("8", "4194304");
    Striping striping = lfs.striping({8, 4194304});
    EXPECT_EQ(striping.trouble(), std::nullopt);
    lfs.calls.clear();
    const StripeNews news = striping.apply("/s/iter_1.partial");
    EXPECT_EQ(news.line, "stripes of new files in /s/iter_1.partial: 8 targets, 4.0 MiB on each in turn");
    EXPECT_TRUE(news.warnings.empty());
    EXPECT_EQ(lfs.calls, (std::vector<Command>{setstripe_command({8, 4194304}, "/s/iter_1.partial"),
                                               getstripe_command("-c", "/s/iter_1.partial"),
                                               getstripe_command("-S", "/s/iter_1.partial")}));
    lfs.calls.clear();
    EXPECT_EQ(striping.apply("/s/iter_2.partial").line, "");
    EXPECT_EQ(lfs.calls, (std::vector<Command>{setstripe_command({8, 4194304}, "/s/iter_2.partial")}));
}

TEST(Striping, WhatDiffersIsAWarningEach) {
    FakeLfs lfs = on_lustre("4", "1048576");
    const StripeNews both = lfs.striping({-1, 4194304}).apply("/s/d");
    EXPECT_EQ(both.warnings,
              (std::vector<std::string>{
                  "--save-stripe-count -1 was asked for, but `lfs getstripe -d -c /s/d` says 4",
                  "--save-stripe-size 4194304 was asked for, but `lfs getstripe -d -S /s/d` says 1048576"}));
    EXPECT_EQ(both.line, "stripes of new files in /s/d: 4 targets, 1.0 MiB on each in turn");
    // What was not asked for cannot differ.
    EXPECT_TRUE(lfs.striping({4, 0}).apply("/s/d").warnings.empty());
    // An answer that is no number: a layout of several parts, or none.
    lfs.answers["getstripe -c"] = FakeLfs::says("1\n8\n");
    EXPECT_EQ(lfs.striping({8, 0}).apply("/s/d").warnings,
              std::vector<std::string>{
                  "--save-stripe-count 8 was asked for, but `lfs getstripe -d -c /s/d` says 1 8"});
    lfs.answers.erase("getstripe -S");
    EXPECT_EQ(lfs.striping({0, 65536}).apply("/s/d").warnings,
              std::vector<std::string>{"--save-stripe-size 65536 was asked for, but `lfs getstripe -d -S "
                                       "/s/d` says lfs: inappropriate ioctl"});
}

TEST(Striping, AFailureIsSaidUntilItWorksAgain) {
    FakeLfs lfs = on_lustre("8", "1048576");
    Striping striping = lfs.striping({8, 0});
    lfs.answers["setstripe"] = FakeLfs::fails(22, "error: unable to set layout on '/s/d'");
    const StripeNews news = striping.apply("/s/d");
    EXPECT_EQ(news.line, "");
    EXPECT_EQ(news.warnings, std::vector<std::string>{
                                 "`lfs setstripe -c 8 /s/d` fails (error: unable to set layout on '/s/d'): "
                                 "the checkpoint is saved without --save-stripe-count 8"});
    EXPECT_TRUE(striping.apply("/s/e").warnings.empty()) << "once is enough";
    lfs.answers["setstripe"] = FakeLfs::says("");
    EXPECT_NE(striping.apply("/s/f").line, "") << "the first that works is read back";
    lfs.answers["setstripe"] = FakeLfs::fails(5, "i/o error");
    EXPECT_EQ(striping.apply("/s/g").warnings.size(), 1u);
}

TEST(Striping, WithoutStripesItIsSaidAtTheStart) {
    FakeLfs lfs;
    Striping striping = lfs.striping({8, 65536});
    EXPECT_EQ(striping.trouble(), "/proc is on proc, which has no stripes: --save-stripe-count 8 and "
                                  "--save-stripe-size 65536 are without effect");
    lfs.calls.clear();
    EXPECT_TRUE(striping.apply("/proc/x").warnings.empty());
    EXPECT_TRUE(lfs.calls.empty()) << "lfs is left alone";
    EXPECT_EQ(lfs.striping({}, 8).trouble(), std::nullopt) << "nobody asked";
}

Striping::Run starts(const std::string& program) {
    return [program](const Command&, double seconds) { return run_command({program}, seconds); };
}

TEST(Striping, AToolThatCannotBeStartedIsSaid) {
    EXPECT_EQ(Striping("/proc", {4, 0}, 1, {}, starts("no-such-lfs")).trouble(),
              "lfs cannot be started (no-such-lfs: No such file or directory) and /proc is on proc: "
              "--save-stripe-count 4 is without effect");
    EXPECT_EQ(Striping("/proc", {0, 65536}, 1, {}, starts("/dev/null")).trouble(),
              "lfs cannot be started (/dev/null: Permission denied) and /proc is on proc: "
              "--save-stripe-size 65536 is without effect");
    EXPECT_EQ(Striping("/proc", {}, 2, {}, starts("no-such-lfs")).trouble(), std::nullopt) << "nobody asked";
}

TEST(Striping, AHangAtTheStartIsPaidForOnce) {
    FakeLfs lfs{{{"getstripe -c", FakeLfs::hangs()}}, {}, {}};
    Striping striping = lfs.striping({8, 0});
    EXPECT_EQ(striping.trouble(),
              "`lfs getstripe -d -c /proc` hangs (lfs: no end after 7 s): lfs is not called again in "
              "this run, and --save-stripe-count 8 is without effect");
    EXPECT_TRUE(striping.apply("/s/d").warnings.empty());
    EXPECT_EQ(lfs.limits, std::vector<double>{5}) << "a short limit, once";
    EXPECT_EQ(lfs.striping({}, 4).trouble(), std::nullopt) << "nobody asked";
    EXPECT_EQ(lfs.striping({}, 4).advice(), std::nullopt);
}

TEST(Striping, AHangAtASaveIsPaidForOnce) {
    FakeLfs lfs = on_lustre("8", "1048576");
    lfs.answers["setstripe"] = FakeLfs::hangs();
    Striping striping = lfs.striping({8, 0});
    const StripeNews news = striping.apply("/s/d");
    EXPECT_EQ(news.warnings,
              std::vector<std::string>{
                  "`lfs setstripe -c 8 /s/d` hangs (lfs: no end after 7 s): lfs is not called again "
                  "in this run, and checkpoints are saved without --save-stripe-count 8"});
    EXPECT_EQ(news.line, "");
    EXPECT_TRUE(striping.apply("/s/e").warnings.empty());
    EXPECT_EQ(lfs.limits, (std::vector<double>{5, 20}));

    lfs = on_lustre("8", "1048576");
    lfs.answers["getstripe -S"] = FakeLfs::hangs();
    Striping asking = lfs.striping({8, 0});
    EXPECT_EQ(asking.apply("/s/d").warnings,
              std::vector<std::string>{
                  "`lfs getstripe -d -S /s/d` hangs (lfs: no end after 7 s): lfs is not called again "
                  "in this run, and later checkpoints are saved without --save-stripe-count 8"});
    EXPECT_TRUE(asking.apply("/s/e").warnings.empty());
    EXPECT_EQ(lfs.calls.size(), 4u) << "asked at the start, told, asked twice";
}

// With a program instead of a function, and limits that a test has time for.
TEST(Striping, AProgramThatHangs) {
    int calls = 0;
    Striping striping("/proc", {8, 0}, 1, {0.05, 0.05}, [&](const Command&, double seconds) {
        ++calls;
        return run_command({"sleep", "1000"}, seconds);
    });
    EXPECT_NE(striping.trouble()->find("hangs (sleep: no end after 0.05 s)"), std::string::npos);
    EXPECT_TRUE(striping.apply("/s/d").warnings.empty());
    EXPECT_EQ(calls, 1);
}

TEST(Striping, RubbishIsOneLine) {
    FakeLfs lfs = on_lustre("8", "1048576");
    lfs.answers["getstripe -c"] = FakeLfs::says(std::string(5000, '\033'));
    const StripeNews news = lfs.striping({8, 0}).apply("/s/d");
    ASSERT_EQ(news.warnings.size(), 1u);
    EXPECT_EQ(news.warnings[0], "--save-stripe-count 8 was asked for, but `lfs getstripe -d -c /s/d` says " +
                                    std::string(297, '?') + "...");
    EXPECT_EQ(news.line.find('\033'), std::string::npos);
    EXPECT_LT(news.line.size(), 500u);
}

TEST(Striping, AdviceWhereRanksShareATarget) {
    FakeLfs lfs = on_lustre("1", "1048576");
    EXPECT_EQ(lfs.striping({}, 4).advice(),
              "/proc is on Lustre and each file of a checkpoint will lie on one target, which 4 ranks write "
              "to; try: --save-stripe-count 4 --save-stripe-size 4M");
    EXPECT_NE(lfs.striping({}, 512).advice()->find("--save-stripe-count 8 "), std::string::npos);
    EXPECT_EQ(lfs.calls.size(), 2u) << "one question each";
    EXPECT_EQ(lfs.striping({4, 0}, 4).advice(), std::nullopt) << "stripes are asked for";
    lfs.calls.clear();
    EXPECT_EQ(lfs.striping({}, 1).advice(), std::nullopt);
    EXPECT_TRUE(lfs.calls.empty()) << "a file for each rank: nothing is asked";
    for (const char* text : {"2", "-1", "", "1\n4", "/s has no stripe info"}) {
        lfs.answers["getstripe -c"] = FakeLfs::says(text);
        EXPECT_EQ(lfs.striping({}, 4).advice(), std::nullopt) << text;
    }
    EXPECT_EQ(FakeLfs{}.striping({}, 4).advice(), std::nullopt) << "not on Lustre";
}

} // namespace
} // namespace trireme::train
