// The directory that a checkpoint is written into: SAVE/iter_N.partial until all of it is on disk, then
// SAVE/iter_N.
#pragma once

#include <cstdint>
#include <filesystem>

namespace trireme::checkpoint {

// Gone again with all in it, and a checkpoint that had its name back in place, unless it was published and
// settled. Rank 0's. Throws Error (output).
class PartialDirectory {
  public:
    explicit PartialDirectory(const std::filesystem::path& final);
    PartialDirectory(const PartialDirectory&) = delete;
    PartialDirectory& operator=(const PartialDirectory&) = delete;
    ~PartialDirectory();

    // Takes its final name; a checkpoint that had it is moved aside.
    void publish();
    // The marker names it: what was moved aside can go.
    void settle();

  private:
    enum class Stage : std::uint8_t { partial, published, settled };
    std::filesystem::path final_, path_;
    Stage stage_ = Stage::partial;
};

} // namespace trireme::checkpoint
