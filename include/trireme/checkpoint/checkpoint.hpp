// Checkpoints of logical tensors: any layout reads what any layout wrote.
//
//     SAVE/latest_checkpointed_iteration.txt     "1000": replaced atomically once the checkpoint below is
//     complete SAVE/iter_0001000/checkpoint.h5            options and counters; links all tensors into one
//     view for people SAVE/iter_0001000/stage_000.h5             parameters and moments of pipeline stage 0,
//     written by its ranks together
//
// In each stage file: /parameters/NAME, /first_moment/NAME, /second_moment/NAME and, where weights are
// narrower than fp32, /master_weights/NAME: datasets of the catalogue's
// global shape, without padding. A checkpoint is written as SAVE/iter_0001000.partial and renamed when all of
// it is on disk. docs/checkpoint-format.md says it all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "trireme/backend/backend.hpp"
#include "trireme/comm/runtime.hpp"
#include "trireme/model/parameters.hpp"
#include "trireme/optimizer/loss_scale.hpp"
#include "trireme/optimizer/optimizer.hpp"

namespace trireme::checkpoint {

// Where training stands, and what it was told.
struct State {
    std::int64_t iteration = 0;
    std::int64_t consumed_samples = 0;
    std::int64_t optimizer_steps = 0;   // good steps: Adam's bias correction
    std::int64_t scheduled_samples = 0; // samples of good steps: the learning rate follows them
    std::uint64_t seed = 0;             // of dropout
    std::string options;                // `name = value` lines, as --config reads them
    std::string layout;                 // "TP 2 x PP 2 x DP 1": for messages
    std::optional<optimizer::LossScale::State> loss_scale; // of fp16
    std::int64_t skipped_iterations = 0;                   // since the start of training
    std::int64_t nan_iterations = 0;
    std::string rates;   // learning rate and weight decay, as optimizer::to_text() writes them
    std::string program; // that wrote it; filled in by reading
    // What else must go on where it stood: anybody may add a name. Absent in checkpoints of older programs.
    std::map<std::string, std::int64_t> more_counters;
    bool has_master_weights = false; // fp32 weights beside narrower ones
    bool has_optimizer = true;       // moments are in it
};

// What of a running model is saved or loaded; nothing is owned.
struct Model {
    model::Parameters* parameters = nullptr;
    optimizer::Optimizer* optimizer = nullptr; // null: weights alone
    backend::Backend* backend = nullptr;
    const comm::ProcessGroups* groups = nullptr;
};

// Whether what was written is read again, from the disk where the system lets us, and its sums compared.
enum class ReadBack : std::uint8_t { no, yes };

struct SaveOptions {
    ReadBack read_back = ReadBack::yes;
    // On rank 0, when the checkpoint's own directory has been made and no file is in it.
    std::function<void(const std::filesystem::path& directory)> in_new_directory = {};
    // On rank 0, when all is on disk and nothing is published yet: may throw Error (output) to drop it.
    std::function<void()> before_publishing = {};
};

// Collective over the world. Throws Error (output) on all ranks, leaving earlier checkpoints and the marker
// as they were. Returns the directory.
std::filesystem::path save(const std::filesystem::path& directory, const State& state, const Model& model,
                           const SaveOptions& options = {});

// Options and counters of a checkpoint directory; any rank may call it alone. Throws Error (checkpoint).
State read_state(const std::filesystem::path& checkpoint);

// Throws Error (checkpoint) if the checkpoint is not of this model: names and shapes that differ are named.
// Any rank may call it alone.
void require_model(const std::filesystem::path& checkpoint, const model::Parameters& parameters);

// What of a checkpoint is loaded: weights and master weights, or moments too.
enum class Loads : std::uint8_t { weights, all };

// Fills the parameters and, if model.optimizer is given, what it holds, and compares the sums of all that was
// read with those that were saved. Weights come from the most exact ones that are there. Collective over the
// world. Throws Error (checkpoint) on all ranks: a file that cannot be read, or is damaged. Parameters and
// moments are then worth nothing.
void load(const std::filesystem::path& checkpoint, const Model& model, Loads loads = Loads::all);

} // namespace trireme::checkpoint
