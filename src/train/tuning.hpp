// How a run comes to its algorithms of matrix products: those of earlier runs are read from a file beside the
// checkpoints, the rest is timed at the start, and the file then holds all. So a resumed run computes with
// the same algorithms, and its bits are those of a run that was never stopped.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "trireme/comm/runtime.hpp"
#include "trireme/train/engine.hpp"

namespace trireme::train {

inline constexpr const char* kAlgorithmsFile = "matrix_algorithms.txt";

// The lines of `known` followed by those of `found` that are not among them.
std::string merge_lines(const std::string& known, const std::string& found);

// Collective over the world. Reads from the directories that have the file, in this order, the later one's
// lines winning; writes to `save` if that is not empty. Returns a line for people, empty on a CPU.
std::string tune(Engine& engine, const backend::Backend& backend, comm::HostGroup& world,
                 const std::string& load, const std::string& save);

} // namespace trireme::train
