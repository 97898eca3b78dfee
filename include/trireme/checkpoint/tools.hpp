// What people ask about checkpoints, answered by one process without MPI. Every path is a checkpoint or a
// directory of checkpoints, of which the marker's is taken. All throw Error (checkpoint) where something
// cannot be read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>

namespace trireme::checkpoint {

// The checkpoint at `path`, or the one that the marker in it names.
std::filesystem::path require_checkpoint(const std::filesystem::path& path);

enum class TensorValues : std::uint8_t { leave_aside, summarise };

// Counters, options and tensors; with `summarise` also norm, smallest and largest value of every tensor of
// every group.
void inspect(const std::filesystem::path& path, TensorValues values, std::ostream& out);

// Says what differs: counters, options, tensors (bits, largest difference, shapes, missing ones). Returns
// whether anything does.
bool differ(const std::filesystem::path& a, const std::filesystem::path& b, std::ostream& out);

} // namespace trireme::checkpoint
