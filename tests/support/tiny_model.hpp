// A model small enough to train a hundred layouts of it in a minute, and synthetic micro-batches whose tokens
// are a function of the sample number alone.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/model/documents.hpp"
#include "trireme/pipeline/executor.hpp"
#include "trireme/train/engine.hpp"

namespace trireme::test {

// 4 layers, hidden 16, 4 heads, sequence 12, vocabulary 61, global batch 8, dropout 0.1, fp64; a gradient
// clip that bites.
train::EngineSetup tiny_setup();

// Where the setup has an end of documents, about every fifth token is one.
class SyntheticBatches : public pipeline::BatchSource {
  public:
    SyntheticBatches(const train::EngineSetup& setup, int data_rank);
    void start_step(std::int64_t consumed_samples) { consumed_ = consumed_samples; }

    std::int64_t first_sample(std::int64_t number) const override;
    model::MicroBatch load(std::int64_t number) override;

  private:
    std::int64_t sequence_, micro_batch_, data_size_, vocabulary_;
    int data_rank_;
    std::int64_t consumed_ = 0;
    std::int32_t end_;
    std::vector<std::int32_t> tokens_, targets_;
    model::DocumentMarks marks_;
};

// Losses of `steps` steps from the initial weights, at a learning rate of 0.02.
std::vector<double> train_losses(train::Engine& engine, int steps);

} // namespace trireme::test
