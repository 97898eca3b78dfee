// ranks: 1 2 4
// The whole model and optimizer against PyTorch in fp64 (tests/oracle/make_goldens.py says how the values
// were made): loss and every gradient of a 3-layer GPT to 1e-10 of the largest value of that kind of
// parameter over all layers, parameters after 10 AdamW steps with clipping, warm-up and decay to 1e-9 in the
// same sense; on every layout of this number of ranks.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <string>

#include "support/goldens.hpp"
#include "support/mpi_test.hpp"
#include "trireme/optimizer/rate_schedule.hpp"

namespace trireme {
namespace {

using test::Goldens;
using test::runtime;
using test::set_parameters;

const char* const kFile = "tests/oracle/data/gpt2_fp64.h5";

constexpr std::int64_t kSteps = 10, kBatch = 4, kSequence = 16; // of /config in the file

train::EngineSetup golden_setup(const topology::Grid& grid, std::int64_t micro_batch) {
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
    setup.optimizer = {.beta1 = 0.85, .beta2 = 0.97, .epsilon = 1e-8, .weight_decay = 0.1, .clip_norm = 0.4};
    return setup;
}

optimizer::LearningRate golden_rate() {
    return {.maximum = 0.01,
            .minimum = 0.001,
            .style = optimizer::DecayStyle::cosine,
            .warmup_samples = 3 * kBatch,
            .decay_samples = 10 * kBatch};
}

class GoldenBatches : public pipeline::BatchSource {
  public:
    GoldenBatches(const train::Engine& engine, std::vector<std::int32_t> tokens)
        : micro_batch_(engine.setup().micro_batch), data_rank_(engine.groups().at.data),
          data_size_(engine.setup().grid.data), all_(std::move(tokens)),
          tokens_(static_cast<std::size_t>(kSequence * micro_batch_)), targets_(tokens_.size()) {}

    void start_step(std::int64_t step) { step_ = step; }
    std::int64_t first_sample(std::int64_t number) const override {
        return step_ * kBatch + (number * data_size_ + data_rank_) * micro_batch_;
    }
    model::MicroBatch load(std::int64_t number) override {
        for (std::int64_t b = 0; b < micro_batch_; ++b)
            for (std::int64_t t = 0; t < kSequence; ++t) {
                const auto from = static_cast<std::size_t>((first_sample(number) + b) * (kSequence + 1) + t);
                const auto to = static_cast<std::size_t>(t * micro_batch_ + b);
                tokens_[to] = all_[from];
                targets_[to] = all_[from + 1];
            }
        return {number, first_sample(number), Tensor(std::span(tokens_), Shape{kSequence, micro_batch_}),
                Tensor(std::span(targets_), Shape{kSequence * micro_batch_})};
    }

  private:
    std::int64_t micro_batch_, data_rank_, data_size_, step_ = 0;
    std::vector<std::int32_t> all_, tokens_, targets_;
};

// Every parameter held here against /GROUP/NAME; `tensor_of` gives the local tensor.
template <class TensorOf>
void expect_parameters(train::Engine& engine, Goldens& goldens, const std::string& group,
                       long double relative, const TensorOf& tensor_of) {
    const std::map<std::string, long double> largest = goldens.largest_of_kinds(group, engine.setup().model);
    for (const model::HeldParameter& held : engine.parameters().held()) {
        const std::vector<double> expected = goldens.part(group + held.parameter.name, held.shard.box);
        const std::span<double> local = tensor_of(held).template values<double>();
        EXPECT_TRUE(
            test::within(local.first(expected.size()), expected, relative * largest.at(held.parameter.kind)))
            << held.parameter.name << " at " << engine.setup().grid.text();
        for (const double padding : local.subspan(expected.size()))
            EXPECT_EQ(padding, 0.0) << "padding of " << held.parameter.name;
    }
}

std::vector<topology::Grid> grids() {
    std::vector<topology::Grid> result;
    for (const int tensor : {1, 2, 4})
        for (const int pipeline : {1, 2, 3})
            for (const int data : {1, 2, 4})
                if (tensor * pipeline * data == runtime().ranks())
                    result.push_back({tensor, data, pipeline});
    return result;
}

TEST(Gpt2Oracle, LossAndGradients) {
    Goldens goldens(kFile);
    for (const topology::Grid& grid : grids()) {
        const auto backend = backend::make_cpu_backend(1);
        train::Engine engine(golden_setup(grid, 1), comm::ProcessGroups(runtime(), grid, *backend), *backend);
        set_parameters(engine, goldens);
        GoldenBatches batches(engine, goldens.tokens());
        const train::StepReport report = engine.train_step(batches, 0.0);
        const double loss = goldens.values("/losses").front();
        EXPECT_TRUE(std::fabs(report.loss - loss) <= 1e-12 * loss) << report.loss << " against " << loss;
        test::expect_gradients(engine, goldens, 1e-10L);
    }
}

TEST(Gpt2Oracle, TenSteps) {
    Goldens goldens(kFile);
    for (const topology::Grid& grid : grids())
        for (const std::int64_t micro_batch : {1, 2}) {
            if (kBatch % (micro_batch * grid.data) != 0)
                continue;
            const auto backend = backend::make_cpu_backend(1);
            train::Engine engine(golden_setup(grid, micro_batch),
                                 comm::ProcessGroups(runtime(), grid, *backend), *backend);
            set_parameters(engine, goldens);
            GoldenBatches batches(engine, goldens.tokens());
            std::vector<double> losses, norms, rates;
            for (std::int64_t step = 0; step < kSteps; ++step) {
                batches.start_step(step);
                rates.push_back(golden_rate().at(step * kBatch));
                const train::StepReport report = engine.train_step(batches, rates.back());
                losses.push_back(report.loss);
                norms.push_back(report.gradient_norm);
            }
            EXPECT_TRUE(test::within(rates, goldens.values("/learning_rates"), 1e-16L));
            EXPECT_TRUE(test::within(losses, goldens.values("/losses"), 1e-10L * losses.front()));
            EXPECT_TRUE(test::within(norms, goldens.values("/gradient_norms"), 1e-10L * norms.front()));
            expect_parameters(
                engine, goldens, "/final_parameters/", 1e-9L,
                [&](const model::HeldParameter& held) { return engine.parameters().weight(held); });
        }
}

} // namespace
} // namespace trireme
