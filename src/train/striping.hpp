// How the files of checkpoints are spread over the storage targets of Lustre, by its own tool, lfs. The
// directory of each checkpoint is told, before a file is in it: stage files are made there by one rank and
// inherit it. Whether a directory has stripes is what `lfs getstripe` says of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
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
    using Run = std::function<CommandEnd(const std::vector<std::string>&)>;

    // Asks lfs about the directory of all checkpoints, if stripes are asked for or `ranks` share a file.
    // `run` starts lfs, within a time limit.
    Striping(std::filesystem::path save, const Stripes& asked, int ranks, Run run = run_lfs);

    // At the start: a warning if stripes are asked for where there are none.
    std::optional<std::string> trouble() const;
    // At the start: what to try, where stripes are not asked for and each file would lie on one target though
    // `ranks_of_stage` write into it.
    std::optional<std::string> advice(int ranks_of_stage) const;
    // Before a checkpoint's first file: its directory gets the stripes asked for. The first time they are
    // read back; failures in a row are said once.
    StripeNews apply(const std::filesystem::path& directory);

  private:
    static CommandEnd run_lfs(const std::vector<std::string>& arguments);
    bool asked() const { return asked_ != Stripes{}; }
    std::string options() const; // as given
    StripeNews read_back(const std::filesystem::path& directory);

    std::filesystem::path save_;
    Stripes asked_;
    Run run_;
    std::optional<CommandEnd> found_; // what lfs says of save_
    bool read_back_ = false;
    bool failing_ = false;
};

} // namespace trireme::train
