// ranks: 1 2 4
// A step that is left at a micro-batch leaves no trace: all ranks leave at the same micro-batch whichever
// rank wants it, nothing waits for ever, and the steps that follow have the bits of a run that was never
// disturbed, in every schedule.
#include <gtest/gtest.h>
#include <vector>

#include "support/mpi_test.hpp"
#include "support/tiny_model.hpp"

namespace trireme {
namespace {

using test::runtime;
using topology::ScheduleKind;

constexpr int kSteps = 4, kDisturbed = 2;
constexpr std::int64_t kNever = 1000;

// One rank wants to leave from a micro-batch on.
class Gate : public pipeline::StepGate {
  public:
    Gate(int lag, int rank, std::int64_t from)
        : vote_(runtime().world().make_vote(lag)), wants_(runtime().rank() == rank), from_(from) {}
    bool enters(std::int64_t micro_batch) override {
        EXPECT_EQ(micro_batch, entered);
        const bool leaves =
            vote_->vote(wants_ && micro_batch >= from_ ? comm::Ballot::yes : comm::Ballot::no);
        entered += leaves ? 0 : 1;
        return !leaves;
    }
    void finish() override { vote_->finish(); }
    std::int64_t entered = 0;

  private:
    std::unique_ptr<comm::RollingVote> vote_;
    bool wants_;
    std::int64_t from_;
};

struct Disturbance {
    int lag, rank;
    std::int64_t from;
};

void expect_no_trace(const train::EngineSetup& setup, const std::vector<Disturbance>& disturbances) {
    const auto backend = backend::make_cpu_backend(1);
    train::Engine engine(setup, comm::ProcessGroups(runtime(), setup.grid, *backend), *backend);
    const std::vector<double> expected = test::train_losses(engine, kSteps);
    for (const auto& [lag, rank, from] : disturbances) {
        SCOPED_TRACE(concat(setup.grid.text(), ", ", topology::name(setup.schedule), ", lag ", lag, ", rank ",
                            rank, " wants to leave from micro-batch ", from));
        train::Engine disturbed(setup, comm::ProcessGroups(runtime(), setup.grid, *backend), *backend);
        disturbed.initialise_weights();
        test::SyntheticBatches batches(setup, disturbed.groups().at.data);
        std::vector<double> losses;
        const std::int64_t all = setup.micro_batches(), left_at = std::min(all, from + lag);
        for (int step = 0; step < kSteps; ++step) {
            batches.start_step(step * setup.global_batch);
            Gate gate(lag, rank, step == kDisturbed ? from : kNever);
            train::StepReport report = disturbed.train_step(batches, 0.02, &gate);
            EXPECT_EQ(report.abandoned, step == kDisturbed && left_at < all);
            EXPECT_EQ(gate.entered, step == kDisturbed ? left_at : all);
            if (report.abandoned)
                report = disturbed.train_step(batches, 0.02);
            losses.push_back(report.loss);
        }
        EXPECT_EQ(losses, expected);
    }
}

TEST(AbandonedStep, LeavesNoTrace) {
    const int ranks = runtime().ranks(), last = ranks - 1;
    struct Case {
        int pipeline;
        ScheduleKind schedule;
        int chunks;
    };
    for (const auto& [pipeline, schedule, chunks] :
         {Case{1, ScheduleKind::one_f_one_b, 1}, // TP or DP alone
          Case{ranks, ScheduleKind::one_f_one_b, 1}, Case{ranks, ScheduleKind::gpipe, 1},
          Case{ranks, ScheduleKind::zb_h1, 1}, Case{ranks, ScheduleKind::interleaved, 2},
          Case{ranks / 2, ScheduleKind::one_f_one_b, 1}}) {
        if (pipeline < 1 || (ranks == 1 && (pipeline != 1 || schedule != ScheduleKind::one_f_one_b)))
            continue;
        train::EngineSetup setup = test::tiny_setup();
        setup.model.layers = std::max(2, pipeline * chunks);
        setup.model.hidden = 8;
        setup.model.head_dim = 2;
        setup.model.ffn = 8;
        setup.model.vocabulary = 13;
        setup.model.sequence = setup.model.max_positions = 4;
        setup.grid.pipeline = pipeline;
        setup.grid.tensor = pipeline == 1 ? ranks : 1;
        setup.grid.data = ranks / setup.grid.tensor / pipeline;
        setup.schedule = schedule;
        setup.chunks = chunks;
        setup.global_batch = 9 * setup.grid.data;
        expect_no_trace(setup, {{1, 0, 0}, {pipeline, last, 3}, {pipeline, 0, 8}});
    }
}

TEST(RollingVote, TellsAllLaterAndAtOnce) {
    comm::HostGroup& world = runtime().world();
    for (const int lag : {1, 2, 5})
        for (int rank = 0; rank < world.size(); ++rank) {
            const auto vote = world.make_vote(lag);
            for (int game = 0; game < 3; ++game) { // the second without any yes
                const int yes_at = game == 1 ? 1000 : 3 + game;
                for (int round = 0; round < 10; ++round) {
                    const bool yes = world.rank() == rank && round == yes_at;
                    const bool told = vote->vote(yes ? comm::Ballot::yes : comm::Ballot::no);
                    EXPECT_EQ(told, round >= yes_at + lag) << "round " << round << ", lag " << lag;
                    if (told)
                        break;
                }
                vote->finish();
            }
        }
}

} // namespace
} // namespace trireme
