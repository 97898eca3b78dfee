// One checkpoint on its way to the disk, in three steps: prepare (collective), write (each rank for itself,
// in whatever thread), publish (collective). Until it is published, giving it up leaves everything as it was.
#pragma once

#include <filesystem>
#include <optional>

#include "partial_directory.hpp"
#include "stage_writer.hpp"
#include "trireme/checkpoint/checkpoint.hpp"

namespace trireme::checkpoint {

class Saving {
  public:
    // Asks for room, makes the directory, lays out the stage files. Collective over the world. Throws Error
    // (output).
    Saving(std::filesystem::path directory, State state, const Model& model, SaveOptions options);

    StageWriter& writer() { return *writer_; } // its finish() is part of writing
    const Contents& contents() const { return contents_; }
    const SaveOptions& options() const { return options_; }

    // All ranks have written everything. Collective over the world. Throws Error (output). Returns the
    // directory.
    std::filesystem::path publish();

  private:
    std::filesystem::path directory_, final_;
    State state_;
    SaveOptions options_;
    comm::HostGroup& world_;
    Contents contents_;
    std::optional<PartialDirectory> created_; // on rank 0
    std::optional<StageWriter> writer_;
};

} // namespace trireme::checkpoint
