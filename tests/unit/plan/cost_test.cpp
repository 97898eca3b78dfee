// The cost model on machines where one thing alone takes time, so that closed forms hold.
#include <cmath>
#include <gtest/gtest.h>

#include "trireme/catalogue/catalogue.hpp"
#include "trireme/plan/cost.hpp"
#include "unit/plan/support.hpp"

namespace trireme::plan {
namespace {

testing::AssertionResult near(double value, double expected, double relative = 1e-6) {
    if (std::fabs(value - expected) <= relative * std::fabs(expected))
        return testing::AssertionSuccess();
    return testing::AssertionFailure() << value << ", expected " << expected;
}

// 6 flops a matmul parameter and token; 100 TFLOP/s and nothing else.
TEST(CostModel, ProductsTakeSixFlopsAParameter) {
    Machine machine = ideal_machine();
    machine.matmul_tflops = 100;
    const RunSetup setup = small_setup(3);
    const double tokens = 256 * 2, parameters = 3 * 12 * 512.0 * 512 + 512 * 1024; // logits layer included
    const Prediction prediction = predict(setup, machine);
    EXPECT_TRUE(near(prediction.computing.matmul, tokens * 6 * parameters / 100e12));
    EXPECT_TRUE(near(prediction.seconds, prediction.computing.matmul, 1e-4));
    // Attention executes 2 products forward and 5 backward on the visible half: one more than it counts for.
    const double scores = 3 * 2 * 8 * 256.0 * 256 / 2;
    EXPECT_TRUE(near(prediction.hardware_flops, tokens * 6 * parameters + 7 * 2 * scores * 64));
    EXPECT_TRUE(near(prediction.model_flops, tokens * 6 * parameters + 6 * 2 * scores * 64));
    EXPECT_TRUE(near(prediction.tokens_per_second_per_gpu, tokens / prediction.seconds));
}

// Each layer sums over tensor ranks twice forward and twice backward: 2 (t - 1) / t of [tokens, hidden] bf16.
TEST(CostModel, TensorRanksSumFourTimesALayer) {
    Machine machine = ideal_machine();
    machine.nvlink_gb_per_s = 10;
    const auto seconds = [&](std::int64_t layers, model::SequenceParallel sequence) {
        RunSetup setup = small_setup(layers);
        setup.grid.tensor = 4;
        setup.sequence_parallel = sequence;
        return predict(setup, machine).computing.tensor;
    };
    const double sum = 2.0 * 3 / 4 * 256 * 2 * 512 * 2 / 10e9;
    const auto no = model::SequenceParallel::no, yes = model::SequenceParallel::yes;
    EXPECT_TRUE(near(seconds(5, no) - seconds(4, no), 4 * sum));
    // Gather and scatter in place of each sum cost the same; the backward pass gathers two inputs again.
    EXPECT_TRUE(near(seconds(5, yes) - seconds(4, yes), 4 * sum + 2 * sum / 2));
}

// With TP over two nodes of two the ring passes each node's adapters.
TEST(CostModel, RingsThatLeaveANodeAreAsFastAsItsAdapters) {
    Machine machine = ideal_machine();
    machine.network_gb_per_s = 10;
    machine.gpus_per_node = 2;
    RunSetup setup = small_setup(4);
    setup.grid.tensor = 4;
    RunSetup more = small_setup(5);
    more.grid.tensor = 4;
    const double sum = 2.0 * 3 / 4 * 256 * 2 * 512 * 2 / 20e9; // two members a node: two adapters
    EXPECT_TRUE(
        near(predict(more, machine).computing.tensor - predict(setup, machine).computing.tensor, 4 * sum));
}

// fp32 main gradients are summed once a step, bf16 weights gathered once if the state is cut.
TEST(CostModel, DataRanksReduceMainGradients) {
    Machine machine = ideal_machine();
    machine.network_gb_per_s = 10;
    machine.gpus_per_node = 1;
    RunSetup setup = small_setup(4);
    setup.grid.data = 8;
    setup.global_batch = 16;
    const double parameters = static_cast<double>(catalogue::parameter_count(setup.model));
    const double pass = 7.0 / 8 * parameters / 10e9;
    Prediction prediction = predict(setup, machine);
    EXPECT_TRUE(near(prediction.reduction, 2 * 4 * pass));
    EXPECT_EQ(prediction.gather, 0);
    setup.optimizer.sharding = optimizer::Sharding::data_ranks;
    prediction = predict(setup, machine);
    EXPECT_TRUE(near(prediction.reduction, 4 * pass));
    EXPECT_TRUE(near(prediction.gather, 2 * pass));
    EXPECT_TRUE(near(prediction.seconds, prediction.reduction + prediction.gather, 1e-3));
    // Beside a backward pass that takes no time nothing is hidden.
    Software software;
    software.overlaps_reduction = software.overlaps_gather = true;
    EXPECT_TRUE(near(predict(setup, machine, software).seconds, prediction.seconds, 1e-3));
    // Beside one that is long only the last bucket is left, and what the pass loses.
    machine.matmul_tflops = 0.001;
    const double after = predict(setup, machine, software).reduction;
    EXPECT_TRUE(after < prediction.reduction);
    machine.overlap_loss = 0.25;
    machine.nvlink_gb_per_s = 20; // twice what the network makes: half the loss
    EXPECT_TRUE(near(predict(setup, machine, software).reduction, after + 0.125 * (4 * pass - after)));
    machine.gpus_per_node = 8;
    machine.nvlink_gb_per_s = 10;
    EXPECT_TRUE(near(predict(setup, machine, software).reduction, after + 0.25 * (4 * pass - after)));
}

// Layers that weigh alike and no ends: the bubble of 1F1B is (p - 1) / (m + p - 1).
TEST(CostModel, BubbleOf1F1B) {
    Machine machine = ideal_machine();
    machine.attention_forward_tflops = 1; // the ends have no attention
    machine.attention_gradient_tflops = 1;
    RunSetup setup = small_setup(8);
    setup.grid.pipeline = 4;
    setup.global_batch = 2 * 12;
    EXPECT_TRUE(near(predict(setup, machine).bubble, 3.0 / 15, 1e-4));
    setup.chunks = 2; // two chunks halve it
    setup.schedule = topology::ScheduleKind::interleaved;
    EXPECT_TRUE(near(predict(setup, machine).bubble, 3.0 / 27, 1e-4));
}

// Full recomputation runs a layer's forward pass again, but for the product whose result only the next layer
// needs: 24 - 8 of a layer's 24 h^2 flops a token, and its attention.
TEST(CostModel, RecomputationCostsAForwardPass) {
    const Machine machine = ideal_machine();
    RunSetup setup = small_setup(4);
    const double kept = predict(setup, machine).hardware_flops;
    setup.recompute = {model::Recompute::Mode::uniform, 1};
    const double tokens = 256 * 2, again = predict(setup, machine).hardware_flops - kept;
    EXPECT_TRUE(near(again, 4 * (tokens * 16 * 512 * 512 + 2 * 2 * 2 * 8 * 256.0 * 256 / 2 * 64)));
}

TEST(CostModel, OverlapsWhatTheRunOverlaps) {
    RunSetup setup = small_setup(2);
    EXPECT_FALSE(software_of(setup).overlaps_reduction);
    setup.optimizer.overlap = optimizer::Overlap::reduction;
    EXPECT_TRUE(software_of(setup).overlaps_reduction);
    EXPECT_FALSE(software_of(setup).overlaps_gather);
    setup.optimizer.overlap = optimizer::Overlap::reduction_and_gather;
    EXPECT_TRUE(software_of(setup).overlaps_reduction && software_of(setup).overlaps_gather);
}

TEST(CostModel, DoesNotKnowFp64) {
    RunSetup setup = small_setup(2);
    setup.type = DType::f64;
    EXPECT_THROW(predict(setup, ideal_machine()), Error);
}

} // namespace
} // namespace trireme::plan
