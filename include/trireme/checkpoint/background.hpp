// Saving while training goes on. The state is copied to host memory that was taken once, and a thread writes
// from there; the copy is complete before training goes on, so a checkpoint is of one step. If the state is
// larger than the memory, the copy waits for the writing of what does not fit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "trireme/checkpoint/checkpoint.hpp"

namespace trireme::checkpoint {

// What this rank copies for one checkpoint.
std::int64_t bytes_to_save(const Model& model);

class BackgroundSave {
  public:
    // Takes `buffer_bytes` of host memory, at least one.
    explicit BackgroundSave(std::int64_t buffer_bytes);
    ~BackgroundSave(); // drops what is in flight
    BackgroundSave(const BackgroundSave&) = delete;
    BackgroundSave& operator=(const BackgroundSave&) = delete;

    // Prepares a checkpoint and copies the state; returns once training may change it. None may be in flight.
    // Collective over the world. Throws Error (output).
    void start(const std::filesystem::path& directory, const State& state, const Model& model,
               const SaveOptions& options);
    bool in_flight() const;
    // Whether all ranks have written everything, without waiting. Collective.
    bool is_written() const;
    // Waits for the writing and publishes. Collective. Throws Error (output) if it failed on any rank: then
    // there is no checkpoint, as if it had not been started. Returns the directory.
    std::filesystem::path finish();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trireme::checkpoint
