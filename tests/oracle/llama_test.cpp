// ranks: 1 2 4
// A Llama-shaped model (rotary positions with Llama 3.1's scaling, RMSNorm, SwiGLU, grouped queries, own
// output layer, biases on query, key and value) against PyTorch in fp64: loss and every gradient to 1e-10 of
// the largest of its kind, on every layout (tests/oracle/make_llama_goldens.py).
#include <cmath>
#include <gtest/gtest.h>

#include "support/goldens.hpp"
#include "support/mpi_test.hpp"

namespace trireme {
namespace {

using test::runtime;

constexpr std::int64_t kBatch = 4, kSequence = 16;

train::EngineSetup llama_setup(const topology::Grid& grid) {
    train::EngineSetup setup;
    catalogue::ModelConfig& model = setup.model;
    model.layers = 3;
    model.hidden = 24;
    model.heads = 4;
    model.groups = 2;
    model.head_dim = 6;
    model.ffn = 40;
    model.vocabulary = 53;
    model.vocabulary_multiple = 4;
    model.max_positions = model.sequence = kSequence;
    model.positions = catalogue::Positions::rotary;
    model.rotary = {.base = 500, .scaling = catalogue::RotaryScaling{.factor = 8, .original_positions = 64}};
    model.normalisation = catalogue::Normalisation::rms_norm;
    model.activation = catalogue::Activation::swiglu;
    model.output_layer = catalogue::OutputLayer::own;
    model.biases = catalogue::Biases::query_key_value;
    model.hidden_dropout = model.attention_dropout = 0;
    setup.type = DType::f64;
    setup.grid = grid;
    setup.global_batch = kBatch;
    if (grid.tensor > 1)
        setup.sequence_parallel = model::SequenceParallel::yes;
    return setup;
}

// Micro-batches of one sample from tokens [batch, T + 1].
class RowBatches : public pipeline::BatchSource {
  public:
    RowBatches(const train::Engine& engine, std::vector<std::int32_t> all)
        : data_rank_(engine.groups().at.data), data_size_(engine.setup().grid.data), all_(std::move(all)) {}
    std::int64_t first_sample(std::int64_t number) const override { return number * data_size_ + data_rank_; }
    model::MicroBatch load(std::int64_t number) override {
        const std::span<std::int32_t> row = std::span(all_).subspan(
            static_cast<std::size_t>(first_sample(number) * (kSequence + 1)), kSequence + 1);
        return {number, first_sample(number), Tensor(row.first(kSequence), Shape{kSequence, 1}),
                Tensor(row.last(kSequence), Shape{kSequence})};
    }

  private:
    std::int64_t data_rank_, data_size_;
    std::vector<std::int32_t> all_;
};

TEST(LlamaOracle, LossAndGradients) {
    test::Goldens goldens("tests/oracle/data/llama_fp64.h5");
    for (const int tensor : {1, 2})
        for (const int pipeline : {1, 2, 3})
            for (const int data : {1, 2, 4}) {
                if (tensor * pipeline * data != runtime().ranks())
                    continue;
                const topology::Grid grid{tensor, data, pipeline};
                const auto backend = backend::make_cpu_backend(1);
                train::Engine engine(llama_setup(grid), comm::ProcessGroups(runtime(), grid, *backend),
                                     *backend);
                test::set_parameters(engine, goldens);
                RowBatches batches(engine, goldens.tokens());
                const double loss = engine.train_step(batches, 0.0).loss,
                             expected = goldens.values("/loss").front();
                EXPECT_TRUE(std::fabs(loss - expected) <= 1e-12 * expected)
                    << loss << " against " << expected;
                test::expect_gradients(engine, goldens, 1e-10L);
            }
}

} // namespace
} // namespace trireme
