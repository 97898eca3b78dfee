// ranks: 1 2 4
// Samples of several documents against PyTorch in fp64: loss to 1e-12 and every gradient to 1e-10 of the
// largest of its kind, with attention within documents, positions that restart and ends that do not count, on
// every layout (tests/oracle/make_document_goldens.py). Samples have different numbers of ends, so a mean of
// the means of micro-batches or ranks would differ.
#include <cmath>
#include <gtest/gtest.h>

#include "support/goldens.hpp"
#include "support/mpi_test.hpp"
#include "trireme/model/documents.hpp"

namespace trireme {
namespace {

using test::runtime;

constexpr std::int64_t kBatch = 4, kSequence = 16;
constexpr std::int32_t kEnd = 7;

train::EngineSetup documents_setup(const topology::Grid& grid, std::int64_t micro_batch) {
    train::EngineSetup setup;
    setup.model.layers = 3;
    setup.model.hidden = 24;
    setup.model.heads = setup.model.groups = 4;
    setup.model.head_dim = 6;
    setup.model.ffn = 96;
    setup.model.vocabulary = 53;
    setup.model.vocabulary_multiple = 4;
    setup.model.max_positions = 20;
    setup.model.sequence = kSequence;
    setup.model.hidden_dropout = setup.model.attention_dropout = 0;
    setup.type = DType::f64;
    setup.grid = grid;
    setup.micro_batch = micro_batch;
    setup.global_batch = kBatch;
    setup.documents = {true, true, true, kEnd};
    if (grid.tensor > 1)
        setup.sequence_parallel = model::SequenceParallel::yes;
    return setup;
}

// From tokens [batch, T + 1].
class RowBatches : public pipeline::BatchSource {
  public:
    RowBatches(const train::Engine& engine, std::vector<std::int32_t> all)
        : micro_batch_(engine.setup().micro_batch), data_rank_(engine.groups().at.data),
          data_size_(engine.setup().grid.data), all_(std::move(all)),
          tokens_(static_cast<std::size_t>(kSequence * micro_batch_)), targets_(tokens_.size()),
          marks_(engine.setup().documents, kSequence, micro_batch_, DType::f64) {}
    std::int64_t first_sample(std::int64_t number) const override {
        return (number * data_size_ + data_rank_) * micro_batch_;
    }
    model::MicroBatch load(std::int64_t number) override {
        for (std::int64_t b = 0; b < micro_batch_; ++b)
            for (std::int64_t t = 0; t < kSequence; ++t) {
                const auto from = static_cast<std::size_t>((first_sample(number) + b) * (kSequence + 1) + t);
                const auto to = static_cast<std::size_t>(t * micro_batch_ + b);
                tokens_[to] = all_[from];
                targets_[to] = all_[from + 1];
            }
        model::MicroBatch batch{number, first_sample(number),
                                Tensor(std::span(tokens_), Shape{kSequence, micro_batch_}),
                                Tensor(std::span(targets_), Shape{kSequence * micro_batch_})};
        marks_.mark(batch);
        return batch;
    }

  private:
    std::int64_t micro_batch_, data_rank_, data_size_;
    std::vector<std::int32_t> all_, tokens_, targets_;
    model::DocumentMarks marks_;
};

TEST(DocumentsOracle, LossAndGradients) {
    test::Goldens parameters("tests/oracle/data/gpt2_fp64.h5"),
        goldens("tests/oracle/data/documents_fp64.h5");
    for (const int tensor : {1, 2})
        for (const int pipeline : {1, 2, 3})
            for (const int data : {1, 2, 4})
                for (const std::int64_t micro_batch : {1, 2}) {
                    if (tensor * pipeline * data != runtime().ranks() || micro_batch * data > kBatch)
                        continue;
                    const topology::Grid grid{tensor, data, pipeline};
                    const auto backend = backend::make_cpu_backend(1);
                    train::Engine engine(documents_setup(grid, micro_batch),
                                         comm::ProcessGroups(runtime(), grid, *backend), *backend);
                    test::set_parameters(engine, parameters);
                    RowBatches batches(engine, goldens.tokens());
                    const double expected = goldens.values("/loss").front();
                    const train::TokenLosses evaluated =
                        engine.evaluate(batches, kBatch / (micro_batch * data));
                    EXPECT_EQ(evaluated.tokens, kBatch * kSequence - 7); // 7 inputs are ends
                    EXPECT_TRUE(std::fabs(evaluated.mean() - expected) <= 1e-12 * expected)
                        << evaluated.mean() << " against " << expected;
                    const train::StepReport report = engine.train_step(batches, 0.0);
                    EXPECT_TRUE(std::fabs(report.loss - expected) <= 1e-12 * expected)
                        << report.loss << " against " << expected;
                    const double norm = goldens.values("/gradient_norm").front();
                    EXPECT_TRUE(std::fabs(report.gradient_norm - norm) <= 1e-10 * norm)
                        << report.gradient_norm << " against " << norm;
                    // Main gradients are divided by all tokens; the rest is the update's factor.
                    test::expect_gradients(engine, goldens, 1e-10L,
                                           static_cast<double>(kBatch * kSequence) / evaluated.tokens);
                }
}

} // namespace
} // namespace trireme
