// Micro-batches from a dataset: the loader reads this rank's samples ahead, and each block becomes tokens and
// targets in the order that the model wants (sequence first).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trireme/data/dataset.hpp"
#include "trireme/data/loader.hpp"
#include "trireme/model/documents.hpp"
#include "trireme/pipeline/executor.hpp"
#include "trireme/train/engine.hpp"

namespace trireme::train {

class DatasetBatches : public pipeline::BatchSource {
  public:
    // Samples of `split` from number `first_sample` on. Nothing is read on ranks that need no tokens.
    DatasetBatches(const data::Dataset& dataset, data::Split split, const Engine& engine,
                   std::int64_t first_sample, int workers);

    // The next step's micro-batches start where the last one's ended.
    void advance(std::int64_t samples) { step_first_sample_ += samples; }

    // Ends of documents among the tokens loaded so far, of all data ranks. Collective over `groups`' world.
    std::int64_t ends_seen(const comm::ProcessGroups& groups) const;

    std::int64_t first_sample(std::int64_t number) const override;
    model::MicroBatch load(std::int64_t number) override;

  private:
    data::LoaderOptions options_;
    std::int64_t step_first_sample_; // consumed samples before this step, of all data ranks
    std::optional<data::Loader> loader_;
    std::vector<std::int32_t> tokens_, targets_; // [T, B]
    model::DocumentMarks marks_;
};

} // namespace trireme::train
