// Saving during a run: the lease on the --save directory, saves that may fail without ending the training,
// old checkpoints that go, and what a person is told of it.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "striping.hpp"
#include "trireme/checkpoint/background.hpp"
#include "trireme/checkpoint/checkpoint.hpp"
#include "trireme/checkpoint/lease.hpp"
#include "trireme/checkpoint/retention.hpp"
#include "trireme/comm/runtime.hpp"
#include "trireme/options/resolve.hpp"

namespace trireme::train {

// Whether the run can do without the checkpoint: one that fails is then tried again at the next interval.
enum class SaveKind : std::uint8_t { periodic, last };

class Saver {
  public:
    // Collective, like all that follows. Makes the directory, takes the lease, clears up what an interrupted
    // run has left. Throws Error (output).
    Saver(const options::Resolved& options, comm::Runtime& runtime);

    // The checkpoint that the run began from is not deleted.
    void keep(const std::filesystem::path& loaded) { retention_.loaded = loaded; }
    // With --async-save: takes the host memory for it. Returns lines of the first screen, or nothing.
    std::string plan(const checkpoint::Model& model);

    // Throws Error (output) on failure if the save is the last one, or with --exit-on-save-failure; otherwise
    // says it. With --async-save the checkpoint is published later, by poll() or finish().
    void save(const checkpoint::State& state, const checkpoint::Model& model, SaveKind kind);
    // At each step boundary: publishes what has been written in the meantime.
    void poll();
    // Waits for what is in flight. Before anything that ends the run.
    void finish();
    bool has_saved(std::int64_t iteration) const { return saved_iteration_ == iteration; }

  private:
    using Clock = std::chrono::steady_clock;
    struct Started {
        std::int64_t iteration = 0;
        Clock::time_point at;
        double paused_seconds = 0;
    };
    std::string advice() const;
    checkpoint::SaveOptions how();
    void publish_in_flight(SaveKind kind);
    void report_failure(const Error& failure, std::int64_t iteration, SaveKind kind) const;
    void published(std::int64_t iteration, const std::string& text);

    const options::Resolved::Checkpoint& options_;
    comm::Runtime& runtime_;
    checkpoint::Retention retention_;
    std::optional<checkpoint::Lease> lease_;           // on rank 0
    std::optional<Striping> striping_;                 // on rank 0
    std::optional<checkpoint::BackgroundSave> writer_; // with --async-save
    Started in_flight_;
    std::int64_t saved_iteration_ = -1;
};

} // namespace trireme::train
