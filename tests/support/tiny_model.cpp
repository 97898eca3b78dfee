// The tiny model and its data.
#include "support/tiny_model.hpp"

#include "trireme/base/philox.hpp"

namespace trireme::test {

train::EngineSetup tiny_setup() {
    train::EngineSetup setup;
    setup.model.layers = 4;
    setup.model.hidden = 16;
    setup.model.heads = setup.model.groups = 4;
    setup.model.head_dim = 4;
    setup.model.ffn = 32;
    setup.model.vocabulary = 61;
    setup.model.vocabulary_multiple = 8;
    setup.model.max_positions = setup.model.sequence = 12;
    setup.model.init_std = 0.2; // large enough that every part of the model matters
    setup.type = DType::f64;
    setup.global_batch = 8;
    setup.optimizer.clip_norm = 0.5;
    // Adam divides a gradient that is nothing but rounding (a key's bias where nothing is rotated) by little
    // more than this: at 1e-8 such a bias walks as far as 1e-11 in 20 steps.
    setup.optimizer.epsilon = 1e-7;
    return setup;
}

SyntheticBatches::SyntheticBatches(const train::EngineSetup& setup, int data_rank)
    : sequence_(setup.model.sequence), micro_batch_(setup.micro_batch), data_size_(setup.grid.data),
      vocabulary_(setup.model.vocabulary), data_rank_(data_rank), end_(setup.documents.end),
      tokens_(static_cast<std::size_t>(sequence_ * micro_batch_)), targets_(tokens_.size()),
      marks_(setup.documents, sequence_, micro_batch_, statistics_type(setup.type)) {}

std::int64_t SyntheticBatches::first_sample(std::int64_t number) const {
    return consumed_ + (number * data_size_ + data_rank_) * micro_batch_;
}

model::MicroBatch SyntheticBatches::load(std::int64_t number) {
    const auto token = [&](std::int64_t sample, std::int64_t t) {
        const PhiloxCounter words =
            philox4x32({static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(t), 0, 0}, {7, 7});
        if (end_ >= 0 && words[1] % 5 == 0)
            return end_;
        return static_cast<std::int32_t>(words[0] % static_cast<std::uint32_t>(vocabulary_));
    };
    for (std::int64_t b = 0; b < micro_batch_; ++b)
        for (std::int64_t t = 0; t < sequence_; ++t) {
            const auto at = static_cast<std::size_t>(t * micro_batch_ + b);
            tokens_[at] = token(first_sample(number) + b, t);
            targets_[at] = token(first_sample(number) + b, t + 1);
        }
    model::MicroBatch batch{number, first_sample(number),
                            Tensor(std::span(tokens_), Shape{sequence_, micro_batch_}),
                            Tensor(std::span(targets_), Shape{sequence_ * micro_batch_})};
    marks_.mark(batch);
    return batch;
}

std::vector<double> train_losses(train::Engine& engine, int steps) {
    engine.initialise_weights();
    SyntheticBatches batches(engine.setup(), engine.groups().at.data);
    std::vector<double> losses;
    for (int step = 0; step < steps; ++step) {
        batches.start_step(step * engine.setup().global_batch);
        losses.push_back(engine.train_step(batches, 0.02).loss);
    }
    return losses;
}

} // namespace trireme::test
