// Which checkpoints go, and what is cleared after a crash.
#include <gtest/gtest.h>

#include <set>

#include "support.hpp"
#include "trireme/checkpoint/retention.hpp"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::ScratchDirectory;
using test::write_text;

std::set<std::string> names_in(const fs::path& directory) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory))
        names.insert(entry.path().filename().string());
    return names;
}

TEST(Retention, KeepsTheLastMultiplesAndTheLoadedOne) {
    const ScratchDirectory scratch;
    const fs::path& save = scratch.path();
    for (const char* name : {"iter_0000010", "iter_0000020", "iter_0000030", "iter_0000040", "iter_0000050",
                             "iter_0000060", "iter_0000090", "iter_0000035.partial", "release", "notes"})
        fs::create_directory(save / name);
    const auto gone = [&](const Retention& retention) {
        std::vector<std::string> names;
        for (const fs::path& path : superfluous(save, 60, retention))
            names.push_back(path.filename().string());
        return names;
    };
    EXPECT_TRUE(gone({.last = 0, .interval = 0, .loaded = {}}).empty());
    EXPECT_TRUE(gone({.last = 6, .interval = 0, .loaded = {}}).empty());
    EXPECT_EQ(gone({.last = 5, .interval = 0, .loaded = {}}), (std::vector<std::string>{"iter_0000010"}));
    EXPECT_EQ(gone({.last = 2, .interval = 0, .loaded = {}}),
              (std::vector<std::string>{"iter_0000010", "iter_0000020", "iter_0000030", "iter_0000040"}));
    EXPECT_EQ(gone({.last = 2, .interval = 20, .loaded = {}}),
              (std::vector<std::string>{"iter_0000010", "iter_0000030"}));
    EXPECT_EQ(gone({.last = 1, .interval = 20, .loaded = save / "." / "iter_0000010"}),
              (std::vector<std::string>{"iter_0000030", "iter_0000050"}));
    write_text(save / "iter_0000030" / "stage_000.h5", "x");
    EXPECT_TRUE(remove_superfluous(save, 60, {.last = 2, .interval = 20, .loaded = {}}).empty());
    EXPECT_EQ(names_in(save),
              (std::set<std::string>{"iter_0000020", "iter_0000040", "iter_0000050", "iter_0000060",
                                     "iter_0000090", "iter_0000035.partial", "release", "notes"}));
}

TEST(Retention, ClearsWhatACrashHasLeft) {
    const ScratchDirectory scratch;
    const fs::path& save = scratch.path();
    for (const char* name :
         {"iter_0000010", "iter_0000020.partial", "iter_0000030.deleted", "iter_0000040.replaced",
          "iter_0000050", "iter_0000050.replaced", "mine.partial", "iter_x.partial"}) {
        fs::create_directory(save / name);
        write_text(save / name / "file", name);
    }
    const std::vector<std::string> lines = clean_up(save);
    EXPECT_EQ(lines.size(), 4u);
    EXPECT_EQ(lines.at(0),
              concat("deleted ", (save / "iter_0000020.partial").string(), " (of an interrupted save)"));
    EXPECT_EQ(names_in(save), (std::set<std::string>{"iter_0000010", "iter_0000040", "iter_0000050",
                                                     "mine.partial", "iter_x.partial"}));
    EXPECT_TRUE(fs::exists(save / "iter_0000040" / "file")) << "what was moved aside is back";
    EXPECT_TRUE(clean_up(save).empty());
}

} // namespace
} // namespace trireme::checkpoint
