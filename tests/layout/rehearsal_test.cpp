// ranks: 1 2 4
// A rehearsal computes what a step computes and leaves no trace: rehearsed before every step, a run has the
// bits of one that never was, in every schedule, with and without recomputation and overlap.
#include <gtest/gtest.h>
#include <vector>

#include "support/mpi_test.hpp"
#include "support/tiny_model.hpp"

namespace trireme {
namespace {

using test::runtime;
using topology::ScheduleKind;

constexpr int kSteps = 3;

void expect_no_trace(const train::EngineSetup& setup) {
    SCOPED_TRACE(concat(setup.grid.text(), ", ", topology::name(setup.schedule)));
    const auto backend = backend::make_cpu_backend(1);
    train::Engine engine(setup, comm::ProcessGroups(runtime(), setup.grid, *backend), *backend);
    const std::vector<double> expected = test::train_losses(engine, kSteps);
    engine.settle();

    train::Engine rehearsed(setup, comm::ProcessGroups(runtime(), setup.grid, *backend), *backend);
    rehearsed.initialise_weights();
    test::SyntheticBatches batches(setup, rehearsed.groups().at.data);
    std::vector<double> losses;
    for (int step = 0; step < kSteps; ++step) {
        for (const model::Mode mode : {model::Mode::train, model::Mode::evaluate, model::Mode::infer})
            rehearsed.rehearse(mode);
        batches.start_step(step * setup.global_batch);
        losses.push_back(rehearsed.train_step(batches, 0.02).loss);
    }
    rehearsed.settle();
    EXPECT_EQ(losses, expected);
}

TEST(Rehearsal, LeavesNoTrace) {
    const int ranks = runtime().ranks();
    struct Case {
        topology::Grid grid;
        ScheduleKind schedule = ScheduleKind::one_f_one_b;
        int chunks = 1;
    };
    std::vector<Case> cases{{{.data = ranks}}};
    if (ranks > 1) {
        cases.push_back({{.tensor = ranks}});
        for (const ScheduleKind schedule :
             {ScheduleKind::one_f_one_b, ScheduleKind::gpipe, ScheduleKind::zb_h1})
            cases.push_back({{.pipeline = ranks}, schedule});
        cases.push_back({{.pipeline = ranks}, ScheduleKind::interleaved, 2});
    }
    for (const auto& [grid, schedule, chunks] : cases) {
        train::EngineSetup setup = test::tiny_setup();
        setup.model.layers = std::max(4, grid.pipeline * chunks);
        setup.grid = grid;
        setup.schedule = schedule;
        setup.chunks = chunks;
        setup.micro_batch = 1;
        expect_no_trace(setup);
        if (schedule != ScheduleKind::zb_h1) {
            setup.recompute = {model::Recompute::Mode::uniform, 1};
            expect_no_trace(setup);
        }
        if (grid.data > 1) {
            setup.optimizer.sharding = optimizer::Sharding::data_ranks;
            setup.optimizer.overlap = optimizer::Overlap::reduction_and_gather;
            expect_no_trace(setup);
        }
        if (grid.tensor > 1) {
            setup.sequence_parallel = model::SequenceParallel::yes;
            expect_no_trace(setup);
        }
    }
}

} // namespace
} // namespace trireme
