// ranks: 2 4
// Communication beside computation gives the same bits: losses, gradient norms and weights of 10 steps with
// overlapped reductions (and gathers) are those without, on every layout with data ranks, for every schedule,
// in fp64, fp32, bf16 and fp16, with buckets so small that each layer has its own. And it does overlap:
// reductions start before the last gradients are there, and are waited for after.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/mpi_test.hpp"
#include "support/tiny_model.hpp"
#include "trireme/base/hash.hpp"

namespace trireme {
namespace {

using optimizer::Overlap;
using test::runtime;
using topology::ScheduleKind;

constexpr int kSteps = 10;

struct Outcome {
    std::vector<double> losses, norms;
    std::uint64_t weights = 0; // hash of all that this rank holds
    bool operator==(const Outcome&) const = default;
};

train::StepSetup step_of(const train::EngineSetup& setup) {
    return {.rates = {0.02, 0.1},
            .loss_scale = setup.type == DType::f16 ? 1024.0 : 1.0,
            .global_batch = setup.global_batch};
}

Outcome outcome(const train::EngineSetup& setup) {
    const auto backend = backend::make_cpu_backend(1);
    train::Engine engine(setup, comm::ProcessGroups(runtime(), setup.grid, *backend), *backend);
    engine.initialise_weights();
    test::SyntheticBatches batches(setup, engine.groups().at.data);
    Outcome result;
    for (int step = 0; step < kSteps; ++step) {
        batches.start_step(step * setup.global_batch);
        const train::StepReport report = engine.train_step(batches, step_of(setup));
        EXPECT_TRUE(report.updated);
        result.losses.push_back(report.loss);
        result.norms.push_back(report.gradient_norm);
        if (step == kSteps / 2) { // weights may still be on their way
            batches.start_step(1000);
            result.losses.push_back(engine.evaluate(batches, 2).mean());
        }
    }
    for (std::size_t i = 0; i < engine.parameters().buckets().size(); ++i) {
        const Tensor weights = engine.parameters().bucket_weights(i);
        result.weights =
            hash_bytes({static_cast<const char*>(weights.data()), static_cast<std::size_t>(weights.bytes())},
                       result.weights);
    }
    return result;
}

std::vector<train::EngineSetup> cases() {
    std::vector<train::EngineSetup> result;
    const int ranks = runtime().ranks();
    int number = 0;
    for (const topology::Grid& grid : {topology::Grid{1, 2, 1}, {1, 2, 2}, {2, 2, 1}, {1, 4, 1}})
        for (const ScheduleKind schedule : {ScheduleKind::one_f_one_b, ScheduleKind::gpipe,
                                            ScheduleKind::zb_h1, ScheduleKind::interleaved}) {
            const bool pipeline_only =
                schedule == ScheduleKind::interleaved || schedule == ScheduleKind::gpipe;
            if (grid.ranks() != ranks || (pipeline_only && grid.pipeline == 1))
                continue;
            train::EngineSetup setup = test::tiny_setup();
            setup.grid = grid;
            setup.schedule = schedule;
            setup.chunks = schedule == ScheduleKind::interleaved ? 2 : 1;
            setup.bucket_elements = 500;
            constexpr DType kTypes[] = {DType::f64, DType::bf16, DType::f16, DType::f32};
            setup.type = kTypes[number++ % 4];
            if (grid.tensor > 1)
                setup.sequence_parallel = model::SequenceParallel::yes;
            result.push_back(setup);
        }
    return result;
}

TEST(Overlap, HasTheSameBits) {
    ASSERT_GT(cases().size(), 1u);
    for (train::EngineSetup setup : cases()) {
        const std::string label =
            concat(setup.grid.text(), ", ", topology::name(setup.schedule), ", ", name(setup.type));
        const Outcome whole = outcome(setup);
        EXPECT_LT(whole.losses.back(), whole.losses.front()) << label;
        setup.optimizer.overlap = Overlap::reduction;
        EXPECT_EQ(outcome(setup), whole) << label;
        setup.optimizer.sharding = optimizer::Sharding::data_ranks;
        const Outcome overlapped_sharded = outcome(setup);
        setup.optimizer.overlap = Overlap::none;
        EXPECT_EQ(overlapped_sharded, outcome(setup)) << label << ", sharded";
        setup.optimizer.overlap = Overlap::reduction_and_gather;
        EXPECT_EQ(outcome(setup), overlapped_sharded) << label << ", gathers overlapped";
    }
}

// Forwards to the data group and writes down what is asked of it: S a reduction started, G a gather started,
// W a wait for something in flight.
class Recording : public comm::Communicator {
  public:
    Recording(std::unique_ptr<comm::Communicator> inner, std::string& calls)
        : Communicator(inner->name(), inner->world_ranks(), inner->rank()), inner_(std::move(inner)),
          calls_(calls) {}

  private:
    void do_all_reduce(Tensor x, comm::ReduceOp op) override { inner_->all_reduce(x, op); }
    void do_reduce_scatter(const Tensor& from, Tensor to) override { inner_->reduce_scatter(from, to); }
    void do_all_gather(const Tensor& from, Tensor to) override { inner_->all_gather(from, to); }
    void do_broadcast(Tensor x, int root) override { inner_->broadcast(x, root); }
    comm::Request do_send(const Tensor& x, int to, int channel) override {
        return inner_->send(x, to, channel);
    }
    comm::Request do_receive(Tensor x, int from, int channel) override {
        return inner_->receive(x, from, channel);
    }
    void do_wait(comm::Request& request) override {
        calls_ += 'W';
        inner_->wait(request);
    }
    comm::Request do_start_all_reduce(Tensor x, comm::ReduceOp op) override {
        calls_ += 'S';
        return inner_->start_all_reduce(x, op);
    }
    comm::Request do_start_reduce_scatter(const Tensor& from, Tensor to) override {
        calls_ += 'S';
        return inner_->start_reduce_scatter(from, to);
    }
    comm::Request do_start_all_gather(const Tensor& from, Tensor to) override {
        calls_ += 'G';
        return inner_->start_all_gather(from, to);
    }
    void do_progress() override {
        inner_->progress();
        calls_ += '.';
    }

    std::unique_ptr<comm::Communicator> inner_;
    std::string& calls_;
};

// What the data group saw in the second step, dots (turns to move on) left out or runs of them as one.
std::string calls_of_a_step(train::EngineSetup setup) {
    const auto backend = backend::make_cpu_backend(1);
    comm::ProcessGroups groups(runtime(), setup.grid, *backend);
    std::string calls;
    groups.data = std::make_unique<Recording>(std::move(groups.data), calls);
    train::Engine engine(setup, std::move(groups), *backend);
    engine.initialise_weights();
    test::SyntheticBatches batches(setup, engine.groups().at.data);
    batches.start_step(0);
    engine.train_step(batches, step_of(setup));
    calls.clear();
    batches.start_step(8);
    engine.train_step(batches, step_of(setup));
    std::string without_runs;
    for (const char call : calls)
        if (call != '.' || without_runs.empty() || without_runs.back() != '.')
            without_runs += call;
    return without_runs;
}

// Four layers, embedding and head in six buckets of matrices and more of what is replicated: each layer's
// matrices are 2112 elements, so a bucket of 500 is full after one.
TEST(Overlap, ReductionsStartEarlyAndAreWaitedForAtTheEnd) {
    train::EngineSetup setup = test::tiny_setup();
    setup.grid = {1, runtime().ranks(), 1};
    setup.bucket_elements = 500;
    const std::string plain = calls_of_a_step(setup);
    EXPECT_EQ(plain.find('.'), std::string::npos) << plain;
    EXPECT_EQ(plain.find("SS"), std::string::npos) << plain; // each waited for before the next
    setup.optimizer.overlap = Overlap::reduction;
    const std::string overlapped = calls_of_a_step(setup);
    const auto starts = std::ranges::count(overlapped, 'S');
    EXPECT_EQ(starts, std::ranges::count(plain, 'S'));
    EXPECT_GE(starts, 4);
    // Between the first start and the last, passes go on; all waits come after all starts.
    EXPECT_LT(overlapped.find('S'), overlapped.rfind('.')) << overlapped;
    EXPECT_NE(overlapped.find("S."), std::string::npos) << overlapped;
    EXPECT_LT(overlapped.rfind('S'), overlapped.find('W')) << overlapped;

    setup.optimizer.sharding = optimizer::Sharding::data_ranks;
    setup.optimizer.overlap = Overlap::reduction_and_gather;
    const std::string gathered = calls_of_a_step(setup);
    EXPECT_EQ(std::ranges::count(gathered, 'G'), starts);
    // The step begins with gathers of the last one still in flight: they are waited for one after the other
    // while the forward pass goes on, and those of this step are left in flight.
    EXPECT_LT(gathered.find('W'), gathered.find('S')) << gathered;
    EXPECT_NE(gathered.find("W."), std::string::npos) << gathered;
    EXPECT_EQ(gathered.find('W', gathered.rfind('G')), std::string::npos) << gathered;
}

// Trains one step whose gathers are left in flight, then lets go of the engine, settled or not.
std::string calls_of_a_last_step(backend::Backend& backend, bool settled) {
    train::EngineSetup setup = test::tiny_setup();
    setup.grid = {1, runtime().ranks(), 1};
    setup.bucket_elements = 500;
    setup.optimizer.sharding = optimizer::Sharding::data_ranks;
    setup.optimizer.overlap = Overlap::reduction_and_gather;
    comm::ProcessGroups groups(runtime(), setup.grid, backend);
    static std::string calls; // outlives an engine that is never destroyed
    calls.clear();
    groups.data = std::make_unique<Recording>(std::move(groups.data), calls);
    train::Engine engine(setup, std::move(groups), backend);
    engine.initialise_weights();
    test::SyntheticBatches batches(setup, engine.groups().at.data);
    batches.start_step(0);
    engine.train_step(batches, step_of(setup));
    EXPECT_EQ(calls.find('W', calls.rfind('G')), std::string::npos) << calls;
    if (settled)
        engine.settle();
    return calls;
}

TEST(Overlap, SettlingWaitsForWhatTheLastStepLeftInFlight) {
    const auto backend = backend::make_cpu_backend(1);
    const std::string calls = calls_of_a_last_step(*backend, true);
    EXPECT_EQ(std::count(calls.begin() + static_cast<std::ptrdiff_t>(calls.rfind('G')), calls.end(), 'W'),
              std::ranges::count(calls, 'G'))
        << calls;
}

// MPI would write gathered weights into memory that has been given back.
TEST(Overlap, MemoryStaysWhereSomethingIsInFlight) {
    const auto settled = backend::make_cpu_backend(1), unsettled = backend::make_cpu_backend(1);
    calls_of_a_last_step(*settled, true);
    calls_of_a_last_step(*unsettled, false);
    EXPECT_GT(unsettled->allocated_bytes(), settled->allocated_bytes()); // its own scratch alone
    runtime().world().barrier();                                         // receives what is in flight
}

} // namespace
} // namespace trireme
