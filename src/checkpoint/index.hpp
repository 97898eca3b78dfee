// checkpoint.h5: the small file of a checkpoint. It holds format version, options, counters and the table of
// tensors, by which a loader finds the stage file of each, and links all tensors into one view for h5py and
// h5dump.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/checkpoint/checkpoint.hpp"

namespace trireme::checkpoint {

struct TensorEntry {
    std::string name; // of the logical parameter
    std::int64_t stage = 0;
    std::vector<std::int64_t> shape;
};

// Written by one rank. Throws Error (output).
void write_index(const std::filesystem::path& checkpoint, const State& state,
                 const std::vector<TensorEntry>& tensors);

// Throws Error (checkpoint): not readable, another format version.
State read_index_state(const std::filesystem::path& checkpoint);
std::map<std::string, TensorEntry> read_index_tensors(const std::filesystem::path& checkpoint);

} // namespace trireme::checkpoint
