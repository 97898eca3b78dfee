// ranks: 2 4
// Equal replicas pass; one changed bit on one rank is found, named with the ranks that hold what, and the
// same on all ranks.
#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>

#include "support/mpi_test.hpp"
#include "support/tiny_model.hpp"
#include "train/replicas.hpp"

namespace trireme {
namespace {

using test::runtime;

class Replicas : public testing::Test {
  protected:
    void start(const train::EngineSetup& setup) {
        engine_.reset(); // before its backend
        backend_ = backend::make_cpu_backend(1);
        engine_.emplace(setup, comm::ProcessGroups(runtime(), setup.grid, *backend_), *backend_);
        engine_->initialise_weights();
        test::SyntheticBatches batches(setup, engine_->groups().at.data);
        for (int step = 0; step < 3; ++step) {
            batches.start_step(step * setup.global_batch);
            engine_->train_step(batches, 0.02);
        }
    }
    // The message of check_replicas; "" if all is well.
    std::string finding() {
        try {
            train::check_replicas(*engine_, *backend_, 7);
            return "";
        } catch (const Error& error) {
            return error.category() == ErrorCategory::communication ? error.message() : "another category";
        }
    }
    // The lowest bit of the first element of a tensor.
    static void flip(const Tensor& tensor) {
        auto* const byte = static_cast<unsigned char*>(tensor.data());
        *byte = static_cast<unsigned char>(*byte ^ 1);
    }
    const model::HeldParameter* held(const std::string& name) {
        const auto all = engine_->parameters().held();
        const auto found = std::ranges::find(all, name, [](const auto& h) { return h.parameter.name; });
        return found == all.end() ? nullptr : &*found;
    }

    std::unique_ptr<backend::Backend> backend_;
    std::optional<train::Engine> engine_;
};

TEST_F(Replicas, AreEqualOnEveryLayout) {
    for (const topology::Grid& grid : {topology::Grid{2, 1, 1},
                                       {1, 2, 1},
                                       {1, 1, 2},
                                       {2, 2, 1},
                                       {2, 1, 2},
                                       {1, 2, 2},
                                       {4, 1, 1},
                                       {1, 4, 1},
                                       {1, 1, 4}}) {
        if (grid.ranks() != runtime().ranks())
            continue;
        train::EngineSetup setup = test::tiny_setup();
        setup.grid = grid;
        setup.type = grid.data > 1 ? DType::bf16 : DType::f64;
        setup.sequence_parallel = model::SequenceParallel::yes;
        for (const auto sharding : {optimizer::Sharding::none, optimizer::Sharding::data_ranks}) {
            setup.optimizer.sharding = sharding;
            start(setup);
            EXPECT_EQ(finding(), "") << grid.text();
        }
    }
}

TEST_F(Replicas, OneChangedBitIsNamedWithItsRank) {
    train::EngineSetup setup = test::tiny_setup();
    setup.grid = {1, runtime().ranks(), 1};
    const int last = runtime().ranks() - 1;
    start(setup);
    if (runtime().rank() == last)
        flip(engine_->parameters().weight(*held("layers.2.mlp.up.weight")));
    const std::string found = finding();
    EXPECT_NE(
        found.find("replicas of layers.2.mlp.up.weight (weights, [0,32) x [0,16)) differ after iteration 7"),
        std::string::npos)
        << found;
    EXPECT_NE(found.find(concat("rank ", last, " holds ")), std::string::npos) << found;
    EXPECT_NE(found.find(last == 1 ? "rank 0 holds " : "ranks 0, 1, 2 hold "), std::string::npos) << found;
    EXPECT_NE(found.find("1 tensor differs"), std::string::npos) << found;
}

// What tensor ranks hold whole, the copy of a tied embedding, and moments.
TEST_F(Replicas, OtherKindsAreCompared) {
    train::EngineSetup setup = test::tiny_setup();
    setup.grid = {runtime().ranks(), 1, 1};
    start(setup);
    if (runtime().rank() == 1)
        flip(engine_->parameters().weight(*held("layers.0.mlp_norm.bias")));
    EXPECT_NE(finding().find("replicas of layers.0.mlp_norm.bias (weights"), std::string::npos);

    setup.grid = {1, 1, runtime().ranks()};
    start(setup);
    if (runtime().rank() == 0)
        flip(engine_->parameters().weight(*held("embedding.word.weight")));
    EXPECT_NE(finding().find("replicas of embedding.word.weight (weights"), std::string::npos);

    setup.grid = {1, runtime().ranks(), 1};
    start(setup);
    if (runtime().rank() == 0)
        flip(engine_->optimizer()
                 .parts(*held("layers.1.attention.projection.weight"), optimizer::StateKind::second_moment)
                 .front()
                 .tensor);
    EXPECT_NE(finding().find("replicas of layers.1.attention.projection.weight (second moment"),
              std::string::npos);
}

} // namespace
} // namespace trireme
