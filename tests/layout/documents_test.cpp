// ranks: 1 2 4
// Documents do not know of each other. Whatever stands in the first one, the losses of the second keep their
// bits; with positions that restart they are those of the second document alone. On every layout of this
// number of ranks, with learned positions and with rope.
#include <cmath>
#include <gtest/gtest.h>

#include "support/mpi_test.hpp"
#include "support/tiny_model.hpp"

namespace trireme {
namespace {

using test::runtime;

constexpr std::int32_t kEnd = 3;
constexpr std::int64_t kFirst = 5; // tokens of the first document, its end included

// The same row for each sample, with a mask of its own: only positions in `counts` take part in the loss.
class OneRow : public pipeline::BatchSource {
  public:
    OneRow(const train::EngineSetup& setup, std::vector<std::int32_t> row, topology::Interval counts)
        : sequence_(setup.model.sequence), micro_batch_(setup.micro_batch), counts_(counts),
          row_(std::move(row)), tokens_(static_cast<std::size_t>(sequence_ * micro_batch_)),
          targets_(tokens_.size()), mask_(tokens_.size()),
          marks_(setup.documents, sequence_, micro_batch_, DType::f64) {}
    std::int64_t first_sample(std::int64_t) const override { return 0; }
    model::MicroBatch load(std::int64_t number) override {
        model::MicroBatch batch{number, 0, Tensor(std::span(tokens_), Shape{sequence_, micro_batch_}),
                                Tensor(std::span(targets_), Shape{sequence_ * micro_batch_})};
        for (std::int64_t t = 0; t < sequence_; ++t)
            for (std::int64_t b = 0; b < micro_batch_; ++b) {
                const auto to = static_cast<std::size_t>(t * micro_batch_ + b);
                tokens_[to] = row_[static_cast<std::size_t>(t)];
                targets_[to] = row_[static_cast<std::size_t>(t + 1)];
                mask_[to] = counts_.begin <= t && t < counts_.end ? 1 : 0;
            }
        marks_.mark(batch);
        batch.loss_mask = Tensor(std::span(mask_), Shape{sequence_ * micro_batch_});
        batch.masked_tokens = (sequence_ - counts_.size()) * micro_batch_;
        return batch;
    }

  private:
    std::int64_t sequence_, micro_batch_;
    topology::Interval counts_;
    std::vector<std::int32_t> row_, tokens_, targets_;
    std::vector<double> mask_;
    model::DocumentMarks marks_;
};

std::vector<train::EngineSetup> setups(const model::DocumentSetup& documents) {
    std::vector<train::EngineSetup> result;
    for (const int tensor : {1, 2, 4})
        for (const int pipeline : {1, 2, 4})
            for (const int data : {1, 2})
                for (const catalogue::Positions positions :
                     {catalogue::Positions::learned, catalogue::Positions::rotary}) {
                    if (tensor * pipeline * data != runtime().ranks())
                        continue;
                    train::EngineSetup setup = test::tiny_setup();
                    setup.grid = {tensor, data, pipeline};
                    setup.model.positions = positions;
                    setup.documents = documents;
                    if (tensor > 1)
                        setup.sequence_parallel = model::SequenceParallel::yes;
                    result.push_back(setup);
                }
    return result;
}

double loss_of(const train::EngineSetup& setup, const std::vector<std::int32_t>& row,
               topology::Interval counts) {
    const auto backend = backend::make_cpu_backend(1);
    train::Engine engine(setup, comm::ProcessGroups(runtime(), setup.grid, *backend), *backend);
    engine.initialise_weights();
    OneRow batches(setup, row, counts);
    return engine.evaluate(batches, 2).mean();
}

const std::vector<std::int32_t> kRow{11, 12, 13, 14, kEnd, 21, 22, 23, 24, 25, kEnd, 31, 32};
const topology::Interval kSecond{kFirst, kFirst + 6};

std::vector<std::int32_t> with_another_first() {
    std::vector<std::int32_t> other = kRow;
    for (std::size_t t = 0; t + 1 < static_cast<std::size_t>(kFirst); ++t)
        other[t] += 30;
    return other;
}

TEST(Documents, WhatStandsInAnotherDoesNotMatter) {
    const std::vector<std::int32_t> other = with_another_first();
    for (const bool restarts : {false, true})
        for (train::EngineSetup setup : setups({true, restarts, true, kEnd})) {
            EXPECT_EQ(loss_of(setup, kRow, kSecond), loss_of(setup, other, kSecond)) << setup.grid.text();
            EXPECT_NE(loss_of(setup, kRow, {0, kFirst}), loss_of(setup, other, {0, kFirst}));
            setup.documents.masks_attention = false; // what the equality is worth
            EXPECT_NE(loss_of(setup, kRow, kSecond), loss_of(setup, other, kSecond)) << setup.grid.text();
        }
}

TEST(Documents, EachIsAsItWouldBeAlone) {
    const std::vector<std::int32_t> alone{21, 22, 23, 24, 25, kEnd, 31, 32, 33, 34, 35, 36, 37};
    for (train::EngineSetup setup : setups({true, true, true, kEnd})) {
        const double expected = loss_of(setup, alone, {0, kSecond.size()});
        EXPECT_NEAR(loss_of(setup, kRow, kSecond), expected, 1e-13 * expected) << setup.grid.text();
        // Learned positions that do not restart are others; rope's differences are the same.
        setup.documents.restarts_positions = false;
        const double shifted = loss_of(setup, kRow, kSecond);
        if (setup.model.positions == catalogue::Positions::learned)
            EXPECT_GT(std::fabs(shifted - expected), 1e-6 * expected);
        else
            EXPECT_NEAR(shifted, expected, 1e-12 * expected);
    }
}

// A batch in which nothing counts has a loss of zero and no gradient; it is a step like any other.
TEST(Documents, NothingCounts) {
    for (const train::EngineSetup& setup : setups({true, true, true, kEnd})) {
        const auto backend = backend::make_cpu_backend(1);
        train::Engine engine(setup, comm::ProcessGroups(runtime(), setup.grid, *backend), *backend);
        engine.initialise_weights();
        OneRow batches(setup, std::vector<std::int32_t>(13, kEnd), {0, 0});
        EXPECT_EQ(engine.evaluate(batches, 2).mean(), 0.0);
        const train::StepReport report = engine.train_step(batches, 0.01);
        EXPECT_EQ(report.loss, 0.0);
        EXPECT_EQ(report.gradient_norm, 0.0);
        EXPECT_TRUE(report.updated);
    }
}

} // namespace
} // namespace trireme
