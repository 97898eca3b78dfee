// A directory that appears under its name once all in it is written: filled as NAME.partial, then renamed.
// Without publish() nothing is left.
#pragma once

#include <filesystem>

#include "trireme/base/error.hpp"

namespace trireme {

class NewDirectory {
  public:
    // Throws Error (usage) if `path` is there and not an empty directory, (output) if it cannot be made.
    explicit NewDirectory(std::filesystem::path path);
    ~NewDirectory();
    NewDirectory(const NewDirectory&) = delete;
    NewDirectory& operator=(const NewDirectory&) = delete;

    // Where to write.
    const std::filesystem::path& partial() const { return partial_; }
    // Renames and syncs; what is in it must be synced before. Throws Error (output).
    void publish();

  private:
    std::filesystem::path path_, partial_;
};

} // namespace trireme
