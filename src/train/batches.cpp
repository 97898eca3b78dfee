// Turns loader blocks [B, T + 1] into tokens and targets [T, B].
#include "batches.hpp"

#include <array>

namespace trireme::train {

DatasetBatches::DatasetBatches(const data::Dataset& dataset, data::Split split, const Engine& engine,
                               std::int64_t first_sample, int workers)
    : step_first_sample_(first_sample),
      marks_(engine.setup().documents, engine.setup().model.sequence, engine.setup().micro_batch,
             statistics_type(engine.setup().type)) {
    const EngineSetup& setup = engine.setup();
    options_.first_sample = first_sample;
    options_.micro_batch = setup.micro_batch;
    options_.data_parallel_rank = engine.groups().at.data;
    options_.data_parallel_size = setup.grid.data;
    options_.sequence_length = setup.model.sequence;
    options_.num_workers = workers;
    if (!engine.needs_tokens())
        return;
    const auto values = static_cast<std::size_t>(setup.model.sequence * setup.micro_batch);
    tokens_.resize(values);
    targets_.resize(values);
    loader_.emplace([&dataset, split](std::int64_t sample,
                                      std::span<std::int32_t> row) { dataset.read(split, sample, row); },
                    options_);
}

std::int64_t DatasetBatches::first_sample(std::int64_t number) const {
    data::LoaderOptions step = options_;
    step.first_sample = step_first_sample_;
    return data::Loader::first_sample_of(step, number);
}

model::MicroBatch DatasetBatches::load(std::int64_t number) {
    const std::int64_t B = options_.micro_batch, T = options_.sequence_length;
    const std::span<const std::int32_t> block = loader_->next();
    for (std::int64_t b = 0; b < B; ++b) {
        const auto row =
            block.subspan(static_cast<std::size_t>(b * (T + 1)), static_cast<std::size_t>(T + 1));
        for (std::int64_t t = 0; t < T; ++t) {
            const auto to = static_cast<std::size_t>(t * B + b), from = static_cast<std::size_t>(t);
            tokens_[to] = row[from];
            targets_[to] = row[from + 1];
        }
    }
    model::MicroBatch batch{number, first_sample(number), Tensor(std::span(tokens_), Shape{T, B}),
                            Tensor(std::span(targets_), Shape{T * B})};
    marks_.mark(batch);
    return batch;
}

// The first stage has all tokens; tensor ranks have the same.
std::int64_t DatasetBatches::ends_seen(const comm::ProcessGroups& groups) const {
    std::array<double, 1> ends{};
    if (groups.at.pipeline == 0 && groups.at.tensor == 0)
        ends[0] = static_cast<double>(marks_.ends_seen());
    groups.world->all_reduce(ends, comm::ReduceOp::sum);
    return static_cast<std::int64_t>(ends[0]);
}

} // namespace trireme::train
