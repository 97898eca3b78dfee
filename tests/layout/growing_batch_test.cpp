// ranks: 2 4
// Steps of different global batches are one training: losses of 12 steps whose batch grows, and falls, equal
// one rank's to 1e-10 of their largest on every pipeline schedule, which then runs lists of different lengths
// over the same slots; so do the losses of an evaluation in between.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "support/mpi_test.hpp"
#include "support/tiny_model.hpp"

namespace trireme {
namespace {

using test::runtime;
using topology::ScheduleKind;

// From fewer micro-batches than stages to many more.
constexpr std::int64_t kBatches[] = {2, 2, 4, 6, 16, 2, 12, 4, 16, 8, 2, 10};

std::vector<double> losses_of(train::Engine& engine) {
    engine.initialise_weights();
    test::SyntheticBatches batches(engine.setup(), engine.groups().at.data);
    std::vector<double> losses;
    std::int64_t consumed = 0;
    for (const std::int64_t batch : kBatches) {
        batches.start_step(consumed);
        losses.push_back(engine.train_step(batches, {.rates = {0.02, 0.1}, .global_batch = batch}).loss);
        consumed += batch;
    }
    batches.start_step(5000);
    losses.push_back(
        engine.evaluate(batches, 8 / (engine.setup().micro_batch * engine.setup().grid.data)).mean());
    return losses;
}

TEST(GrowingBatch, LossesEqualOneRanks) {
    train::EngineSetup one = test::tiny_setup();
    one.global_batch = 16;
    one.other_batches = {2, 4, 6, 8, 10, 12};
    std::vector<double> expected(std::size(kBatches) + 1);
    if (runtime().rank() == 0) {
        const auto backend = backend::make_cpu_backend(1);
        const auto alone = comm::make_self_host_group();
        train::Engine engine(one, comm::ProcessGroups::alone(*alone), *backend);
        expected = losses_of(engine);
    }
    runtime().world().all_reduce(expected, comm::ReduceOp::sum);
    const double bound = 1e-10 * *std::ranges::max_element(expected);
    const int ranks = runtime().ranks();
    for (const topology::Grid& grid :
         {topology::Grid{1, 1, ranks}, {1, ranks / 2, 2}, {2, 1, ranks / 2}, {1, 2, ranks / 2}})
        for (const ScheduleKind schedule : {ScheduleKind::one_f_one_b, ScheduleKind::gpipe,
                                            ScheduleKind::zb_h1, ScheduleKind::interleaved}) {
            const bool interleaved = schedule == ScheduleKind::interleaved;
            if (interleaved && (grid.pipeline == 1 || grid.pipeline == 4))
                continue; // 4 layers
            train::EngineSetup setup = one;
            setup.grid = grid;
            setup.schedule = schedule;
            setup.chunks = interleaved ? 2 : 1;
            if (grid.data > 1)
                setup.optimizer.sharding = optimizer::Sharding::data_ranks;
            const auto backend = backend::make_cpu_backend(1);
            train::Engine engine(setup, comm::ProcessGroups(runtime(), grid, *backend), *backend);
            const std::vector<double> losses = losses_of(engine);
            for (std::size_t i = 0; i < losses.size(); ++i)
                ASSERT_TRUE(std::fabs(losses[i] - expected[i]) <= bound)
                    << grid.text() << ", " << topology::name(schedule) << ", step " << i << ": " << losses[i]
                    << ", one rank: " << expected[i];
        }
}

} // namespace
} // namespace trireme
