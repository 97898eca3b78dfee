// Layers balanced by FLOPs, against splits worked out by hand.
#include <gtest/gtest.h>

#include "trireme/catalogue/catalogue.hpp"
#include "trireme/plan/balance.hpp"
#include "trireme/plan/declared_rank.hpp"
#include "trireme/plan/report.hpp"
#include "unit/plan/support.hpp"

namespace trireme::plan {
namespace {

using Sizes = std::vector<std::int64_t>;
using model::Recompute;

// Hidden 512, 8 heads of 64, MLP 2048, sequence 256: a layer has 12 x 512 x 512 matrix elements, each 6
// FLOPs, and scores of 12 x 512 x 256 / 2 FLOPs; logits 512 x vocabulary elements.
TEST(Balance, CostsAreTheCataloguesFlops) {
    RunSetup setup = small_setup(8);
    const topology::LayerCosts costs = layer_costs(setup);
    const double scores = 6.0 * 512 * 256, mlp = 6.0 * 8 * 512 * 512;
    EXPECT_EQ(costs.layer, 6.0 * 12 * 512 * 512 + scores);
    EXPECT_EQ(costs.head, 6.0 * 512 * 1024);
    EXPECT_EQ(costs.embedding, 3.0 * 512);
    EXPECT_EQ(8 * costs.layer + costs.head,
              catalogue::flops_per_token(setup.model, catalogue::AttentionFlops::causal));
    setup.recompute = {Recompute::Mode::uniform, 1};
    EXPECT_DOUBLE_EQ(layer_costs(setup).layer, costs.layer * 4 / 3);
    setup.recompute = {Recompute::Mode::selective, 0, {.core_attention = true, .norms = true, .mlp = false}};
    EXPECT_DOUBLE_EQ(layer_costs(setup).layer, costs.layer + scores / 3);
    setup.recompute.modules.mlp = true; // one of two matrices again
    EXPECT_DOUBLE_EQ(layer_costs(setup).layer, costs.layer + scores / 3 + mlp / 6);
    setup.recompute = {Recompute::Mode::block, 2};
    EXPECT_DOUBLE_EQ(layer_costs(setup).piece(3, false, false), costs.layer * (3 + 2.0 / 3));
}

// A vocabulary of 24,576 costs as much as four layers without their scores (3.84 with them).
TEST(Balance, ALargeVocabularyTakesLayersFromTheLastStage) {
    RunSetup setup = small_setup(12);
    setup.model.vocabulary = 24576;
    setup.grid.pipeline = 4;
    EXPECT_EQ(balanced_pieces(setup), (Sizes{4, 4, 4, 0}));
    setup.model.layers = 16; // 4.96 a stage
    EXPECT_EQ(balanced_pieces(setup), (Sizes{5, 5, 5, 1}));
    setup.chunks = 2;
    setup.schedule = topology::ScheduleKind::interleaved;
    const Sizes pieces = balanced_pieces(setup);
    EXPECT_EQ(pieces[3] + pieces[7], 1) << "chunk 0 of the last stage, and none beside the head";
    EXPECT_EQ(pieces[7], 0);
}

// Foreseen time agrees: no other number of layers on the last stage is faster on a machine where nothing but
// products takes time.
TEST(Balance, IsTheFastestWhereProductsCount) {
    Machine machine = ideal_machine();
    machine.matmul_tflops = machine.attention_forward_tflops = machine.attention_gradient_tflops = 100;
    RunSetup setup = small_setup(16);
    setup.model.vocabulary = 24576;
    setup.grid.pipeline = 4;
    setup.micro_batch = 1;
    setup.global_batch = 64;
    setup.split.pieces = balanced_pieces(setup);
    const double balanced = predict(setup, machine).seconds;
    for (const Sizes& other : {Sizes{4, 4, 4, 4}, Sizes{5, 4, 4, 3}, Sizes{5, 5, 4, 2}, Sizes{6, 5, 5, 0}}) {
        setup.split.pieces = other;
        EXPECT_GT(predict(setup, machine).seconds, balanced * 1.001) << other.back();
    }
}

// The plan says the split, and stages without layers are planned.
TEST(Balance, ThePlanSaysTheSplit) {
    RunSetup setup = small_setup(6);
    setup.grid.pipeline = 4;
    setup.global_batch = 8;
    setup.split.pieces = {0, 3, 3, 0};
    const std::vector<StageMemory> stages = declare_stages(setup, {backend::Device::cpu, 1});
    const std::string text = describe_plan(setup, stages, nullptr);
    EXPECT_NE(text.find("GPT 6 layers (0 + 3 + 3 + 0), hidden"), std::string::npos) << text;
    std::int64_t parameters = 0;
    for (const StageMemory& stage : stages)
        parameters += stage.stage_parameters;
    EXPECT_EQ(parameters, catalogue::parameter_count(setup.model) + 512 * 1024)
        << "and the copy of the tied embedding";
    setup.split = {};
    setup.chunks = 1;
    const auto even = relative_costs(setup);
    for (const auto& stage : even)
        EXPECT_EQ(stage.front().forward, 1);
}

} // namespace
} // namespace trireme::plan
