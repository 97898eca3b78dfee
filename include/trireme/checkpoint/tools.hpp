// What people ask about checkpoints, answered by one process without MPI. Every path is a checkpoint or a
// directory of checkpoints, of which the marker's is taken. All throw Error (checkpoint) where something
// cannot be read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <optional>

namespace trireme::checkpoint {

// The checkpoint at `path`, or the one that the marker in it names, or the one of iteration `step` in it.
std::filesystem::path require_checkpoint(const std::filesystem::path& path,
                                         std::optional<std::int64_t> step = {});

enum class TensorValues : std::uint8_t { leave_aside, summarise };

// Counters, options and tensors; with `summarise` also norm, smallest and largest value of every tensor of
// every group.
void inspect(const std::filesystem::path& path, TensorValues values, std::ostream& out);

// Says what differs: counters, options, tensors (bits, largest difference, shapes, missing ones). Returns
// whether anything does.
// Whatever is read is held against its sums.
bool differ(const std::filesystem::path& a, const std::filesystem::path& b, std::ostream& out);

// Reads all of a checkpoint, or of each one in a directory, and says which are as they were saved. Throws
// Error (checkpoint) with what was found if any is not.
void verify_and_report(const std::filesystem::path& path, std::ostream& out);

} // namespace trireme::checkpoint
