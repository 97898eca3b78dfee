// Going on from a checkpoint: which one, what the run takes from it, and what a person is told. One that
// turns out to be damaged when its data is read is passed over as long as there is an earlier one:
//
//     chosen: iteration 300 -> load() finds damage -> chosen: iteration 200 -> load() succeeds -> tell()
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "progress.hpp"
#include "trireme/checkpoint/checkpoint.hpp"
#include "trireme/checkpoint/select.hpp"
#include "trireme/comm/runtime.hpp"
#include "trireme/options/resolve.hpp"

namespace trireme::train {

class Resume {
  public:
    // Chooses, and reads the counters. Collective over the world, like load(). Throws Error (checkpoint): the
    // wanted one is missing, or not what the options say.
    Resume(const options::Resolved& options, comm::Runtime& runtime);

    // Nothing: the run starts from scratch.
    const std::optional<std::filesystem::path>& checkpoint() const { return selection_.checkpoint; }
    // Where the run goes on.
    const Progress& progress() const { return progress_; }

    // Fills `model`, weights and optimizer, if there is anything to load. False: the checkpoint is damaged
    // and an earlier one is chosen now, whose seed of dropout may be another. Throws Error (checkpoint):
    // there is no earlier one, or it is of another model.
    bool load(const checkpoint::Model& model);
    // What was loaded, and what differs from the options.
    void tell() const;

  private:
    void choose();
    void take_counters();
    void fill(const checkpoint::Model& model) const;
    bool weights_only() const { return options_.checkpoint.finetune || selection_.release; }
    bool with_optimizer() const { return options_.checkpoint.load_optim && !weights_only(); }

    const options::Resolved& options_;
    comm::Runtime& runtime_;
    checkpoint::Selection selection_;
    std::vector<checkpoint::PassedOver> damaged_; // those that could not be loaded
    checkpoint::State saved_;                     // what the checkpoint says
    Progress progress_;
    std::vector<std::string> changed_rates_;
    double seconds_ = 0; // in load()
};

} // namespace trireme::train
