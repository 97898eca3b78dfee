// checkpoint.h5: the small file of a checkpoint. It holds format version, options, counters, the table of
// tensors, by which a loader finds the stage file of each, and the sums of their elements, and links all
// tensors into one view for h5py and h5dump. A digest over what it holds shows whether it is as it was
// written.
#pragma once

#include <filesystem>
#include <optional>

#include "contents.hpp"
#include "trireme/checkpoint/checkpoint.hpp"

namespace trireme::checkpoint {

struct Index {
    std::int64_t format_version = 0;
    State state;
    Contents contents;
    std::optional<SumTable> sums; // not in version 1
};

// Written by one rank; on disk when it returns. Throws Error (output).
void write_index(const std::filesystem::path& checkpoint, const State& state, const Contents& contents,
                 const SumTable& sums);

// Throws Error (checkpoint): not readable, damaged, a later format version.
Index read_index(const std::filesystem::path& checkpoint);

} // namespace trireme::checkpoint
