// All that stands when the first step begins, and is said of it before: the --save directory, the data, the
// engine with its weights, where training goes on. What the user got wrong is found here, the cheapest first.
#pragma once

#include <memory>
#include <optional>

#include "progress.hpp"
#include "resume.hpp"
#include "saver.hpp"
#include "stop.hpp"
#include "trireme/backend/backend.hpp"
#include "trireme/comm/runtime.hpp"
#include "trireme/data/dataset.hpp"
#include "trireme/data/tokenizer.hpp"
#include "trireme/options/resolve.hpp"
#include "trireme/train/engine.hpp"
#include "trireme/train/pretrain.hpp"

namespace trireme::train {

struct TrainingRun {
    // Collective over the world. Throws Error on all ranks together.
    TrainingRun(const options::Resolved& options, comm::Runtime& runtime, const Launch& launch);

    checkpoint::Model model();
    checkpoint::Model saved_model(); // what of it goes into a checkpoint

    StopRequests requests;
    Progress progress;
    std::optional<data::Dataset> dataset;
    std::unique_ptr<backend::Backend> backend;
    std::optional<Engine> engine;
    std::optional<Saver> saver; // with --save

  private:
    void own_directory(ExitRecord& record);
    void open_data();
    void make_engine(std::uint64_t seed);
    void show_first_screen();
    void set_weights(Resume& resume);
    void draw_weights();

    const options::Resolved& options_;
    comm::Runtime& runtime_;
    std::int64_t vocabulary_ = 0;
    std::int32_t end_of_document_ = -1;
};

} // namespace trireme::train
