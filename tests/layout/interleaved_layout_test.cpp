// ranks: 2 4
// Interleaved 1F1B trains the same model as one rank: losses of 10 steps equal one rank's to 1e-10 of their
// largest, for multiples of the stages, groups larger than the ring (receives posted further ahead, more
// slots) and fewer micro-batches than stages; with documents within samples for some.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "support/mpi_test.hpp"
#include "support/tiny_model.hpp"

namespace trireme {
namespace {

using test::runtime;

constexpr int kSteps = 10;

TEST(InterleavedLayout, LossesEqualOneRanks) {
    for (const int chunks : {2, 3})
        for (const int micro_batches : {1, 3, 4, 7, 8, 11}) {
            train::EngineSetup setup = test::tiny_setup();
            setup.model.layers = 12;
            setup.model.init_std = 0.1;
            setup.global_batch = micro_batches;
            if (micro_batches % 2 == 1) { // every chunk needs them
                setup.documents = {true, true, true, 3};
                setup.model.positions = catalogue::Positions::rotary;
            }
            std::vector<double> expected(kSteps);
            if (runtime().rank() == 0) {
                const auto backend = backend::make_cpu_backend(1);
                const auto alone = comm::make_self_host_group();
                train::Engine engine(setup, comm::ProcessGroups::alone(*alone), *backend);
                expected = test::train_losses(engine, kSteps);
            }
            runtime().world().all_reduce(expected, comm::ReduceOp::sum);
            const double bound = 1e-10 * *std::ranges::max_element(expected);

            setup.grid.pipeline = runtime().ranks();
            setup.chunks = chunks;
            setup.schedule = topology::ScheduleKind::interleaved;
            const auto backend = backend::make_cpu_backend(1);
            train::Engine engine(setup, comm::ProcessGroups(runtime(), setup.grid, *backend), *backend);
            const std::vector<double> losses = test::train_losses(engine, kSteps);
            for (std::size_t step = 0; step < losses.size(); ++step)
                ASSERT_TRUE(std::fabs(losses[step] - expected[step]) <= bound)
                    << chunks << " chunks, " << micro_batches << " micro-batches, step " << step << ": "
                    << losses[step] << ", one rank: " << expected[step];
        }
}

} // namespace
} // namespace trireme
