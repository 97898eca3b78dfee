// How the files of checkpoints are spread over the storage targets of Lustre, by its own tool, lfs. The
// directory of each checkpoint is told, before a file is in it: stage files are made there by one rank and
// inherit it. Whether a directory has stripes is what `lfs getstripe` says of it. An lfs that hangs (a server
// is down) is paid for once: it is not called again in this run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trireme/base/command.hpp"

namespace trireme::train {

struct Stripes {
    std::int64_t count = 0;      // targets of a file; 0: the file system's default, -1: all
    std::int64_t size_bytes = 0; // on a target before the next one's turn; 0: the file system's default
    bool operator==(const Stripes&) const = default;
};

// lfs setstripe -c 8 -S 4194304 DIRECTORY
std::vector<std::string> setstripe_command(const Stripes& stripes, const std::filesystem::path& directory);
// lfs getstripe -d -c DIRECTORY; `what` is -c or -S.
std::vector<std::string> getstripe_command(const char* what, const std::filesystem::path& directory);

// What a person is told.
struct StripeNews {
    std::vector<std::string> warnings;
    std::string line; // "" or one for the log
};

// Of one rank. Nothing here throws: a checkpoint without its stripes is better than none.
class Striping {
  public:
    // For one call of lfs.
    struct Patience {
        double question_seconds = 5; // at the start, where someone may be looking
        double seconds = 20; // at a save: servers of a large file system may be slow, and training waits
    };
    // Starts a command, with a limit in seconds.
    using Run = std::function<CommandEnd(const std::vector<std::string>&, double)>;

    // Asks lfs about the directory of all checkpoints, if stripes are asked for or `ranks_of_stage`, which
    // write into one file, are several.
    Striping(std::filesystem::path save, const Stripes& asked, int ranks_of_stage, Patience patience,
             Run run);
    Striping(std::filesystem::path save, const Stripes& asked, int ranks_of_stage)
        : Striping(std::move(save), asked, ranks_of_stage, {}, run_command) {}

    // At the start: a warning if stripes are asked for and there are none, or lfs does not say.
    std::optional<std::string> trouble() const;
    // At the start: what to try, where stripes are not asked for and each file would lie on one target though
    // several ranks write into it.
    std::optional<std::string> advice() const;
    // Before a checkpoint's first file: its directory gets the stripes asked for. The first time they are
    // read back; failures in a row are said once.
    StripeNews apply(const std::filesystem::path& directory);

  private:
    CommandEnd call(const std::vector<std::string>& command, double seconds);
    static std::string hangs(const std::vector<std::string>& command, const CommandEnd& end);
    bool asked() const { return asked_ != Stripes{}; }
    std::string options() const; // as given
    StripeNews read_back(const std::filesystem::path& directory);

    std::filesystem::path save_;
    Stripes asked_;
    int ranks_of_stage_;
    Patience patience_;
    Run run_;
    std::optional<CommandEnd> found_; // what lfs says of save_
    bool read_back_ = false;
    bool failing_ = false;
    bool hangs_ = false; // the last call, which is the last of all then
};

} // namespace trireme::train
