// Planned memory against counts made by hand and published formulas. That it is what a run takes is held by
// tests/layout/layout_matrix_test.
#include <cmath>
#include <gtest/gtest.h>

#include <cmath>

#include "trireme/catalogue/catalogue.hpp"
#include "trireme/plan/report.hpp"
#include "unit/plan/support.hpp"

namespace trireme::plan {
namespace {

using memory::Category;

constexpr DeviceKind kGpu{backend::Device::cuda, 1};

std::int64_t bytes(const RunSetup& setup, Category category, int stage = 0) {
    return declare_stage(setup, stage, kGpu, schedule_of(setup)).bytes[static_cast<std::size_t>(category)];
}

// Korthikanti et al. 2022: a layer keeps 34 s b h bytes beside the attention core's scores, of which 2 s b h
// are dropout masks that are drawn again here. Statistics (mean and rstd of two norms, logsumexp of each
// head, fp32) come on top.
TEST(PlannedMemory, ALayersActivationsAreThePublishedOnes) {
    const std::int64_t layer =
        bytes(small_setup(3), Category::activations) - bytes(small_setup(2), Category::activations);
    const std::int64_t tokens = 256 * 2, hidden = 512, heads = 8;
    EXPECT_EQ(layer, 32 * tokens * hidden + 4 * tokens * (4 + heads));
}

TEST(PlannedMemory, FullRecomputationKeepsTheInputOfALayer) {
    RunSetup two = small_setup(2), three = small_setup(3);
    two.recompute = three.recompute = {model::Recompute::Mode::uniform, 1};
    EXPECT_EQ(bytes(three, Category::activations) - bytes(two, Category::activations), 2 * 256 * 2 * 512);
}

// 16 bytes a parameter in bf16: weights, fp32 main gradients, the rest of master weights, two fp32 moments;
// with the state cut over 4 data ranks 2 + 4 + 10 / 4. In fp16 master weights are whole. All sizes here are
// multiples of the alignments.
TEST(PlannedMemory, BytesOfAParameter) {
    RunSetup setup = small_setup(4);
    const std::int64_t parameters = catalogue::parameter_count(setup.model);
    EXPECT_EQ(bytes(setup, Category::weights), 2 * parameters);
    EXPECT_EQ(bytes(setup, Category::gradients), 4 * parameters);
    EXPECT_EQ(bytes(setup, Category::optimizer), 10 * parameters);
    setup.type = DType::f16;
    EXPECT_EQ(bytes(setup, Category::optimizer), 12 * parameters);
    setup.type = DType::bf16;
    setup.grid.data = 4;
    setup.global_batch = 8;
    setup.optimizer.sharding = optimizer::Sharding::data_ranks;
    EXPECT_EQ(bytes(setup, Category::weights), 2 * parameters);
    EXPECT_EQ(2 * bytes(setup, Category::optimizer), 5 * parameters);
}

// Under 1F1B stage s of p holds p - s micro-batches in flight.
TEST(PlannedMemory, FollowsTheMicroBatchesInFlight) {
    RunSetup setup = small_setup(8);
    setup.grid.pipeline = 4;
    setup.global_batch = 32;
    const std::int64_t slot = 2 * (32 * 512 * 512 + 4 * 512 * (4 + 8)); // of two layers
    EXPECT_EQ(bytes(setup, Category::activations, 1) - bytes(setup, Category::activations, 2), slot);
}

// The article's 7B at TP 4 x PP 2.
TEST(PlannedMemory, TheSevenBillion) {
    RunSetup setup = small_setup(32);
    setup.model.hidden = 4096;
    setup.model.heads = setup.model.groups = 32;
    setup.model.head_dim = 128;
    setup.model.ffn = 16384;
    setup.model.vocabulary = 50257;
    setup.model.max_positions = setup.model.sequence = 2048;
    setup.micro_batch = 1;
    setup.global_batch = 16;
    setup.grid = {4, 1, 2};
    EXPECT_EQ(catalogue::parameter_count(setup.model), 6'658'404'352);
    const std::vector<StageMemory> stages = declare_stages(setup, kGpu);
    // 16 layers of 12 h^2 + 13 h; the first stage has both embeddings, the last the final norm and a copy of
    // the word embedding.
    const std::int64_t h = 4096, layers = 16 * (12 * h * h + 13 * h);
    EXPECT_EQ(stages[0].stage_parameters, layers + 50257 * h + 2048 * h);
    EXPECT_EQ(stages[1].stage_parameters, layers + 50257 * h + 2 * h);
    // A quarter of what is cut; norms, projection and down biases and positions whole; 50688 rows with
    // padding.
    const std::int64_t cut = 12 * h * h + 3 * h + 4 * h, whole = 4 * h + 2 * h;
    EXPECT_EQ(stages[0].rank_parameters, 16 * (cut / 4 + whole) + 50688 / 4 * h + 2048 * h);
}

// The deterministic gradient of attention on an H200: 1.5 GiB of workspace for 64 sequences of 1024 and 12
// heads of 64, as measured; with the products' 32 MiB that is the whole.
TEST(PlannedMemory, KnowsTheWorkspaceOfAttention) {
    RunSetup setup = small_setup(1);
    setup.model.hidden = 768;
    setup.model.heads = setup.model.groups = 12;
    setup.model.ffn = 3072;
    setup.model.max_positions = setup.model.sequence = 1024;
    setup.micro_batch = setup.global_batch = 64;
    const double gib = static_cast<double>(bytes(setup, Category::workspace)) / (1 << 30);
    EXPECT_TRUE(std::fabs(gib - 1.5 - 32.0 / 1024) <= 0.01) << gib;
}

TEST(PlannedMemory, WhatDoesNotFitNamesItsLargestItems) {
    RunSetup setup = small_setup(4);
    Machine machine = ideal_machine();
    EXPECT_NO_THROW(require_room(setup, declare_stages(setup, kGpu), machine));
    machine.memory_gib = 1.01;
    try {
        require_room(setup, declare_stages(setup, kGpu), machine);
        FAIL() << "it fits";
    } catch (const Error& error) {
        EXPECT_EQ(error.exit_code(), 6);
        const std::string text = error.message();
        EXPECT_NE(text.find("optimizer"), std::string::npos) << text;
        EXPECT_NE(text.find("--use-distributed-optimizer"), std::string::npos) << text;
        EXPECT_NE(text.find("plan --search 1 "), std::string::npos) << text;
    }
}

// The same of a run's own rank, with what its communicators have taken already.
TEST(PlannedMemory, ARunThatDoesNotFitSaysSoBeforeItTakesAnything) {
    memory::Plan plan;
    plan.add(Category::weights, "w", Shape{1 << 20}, DType::u8);
    plan.add(Category::logits, "l", Shape{2 << 20}, DType::u8);
    plan.count(Category::communication, "mail", 1024);
    EXPECT_NO_THROW(require_room(plan, 1024, 3 << 20, "a rank"));
    try {
        require_room(plan, 1024, (3 << 20) - 1, "a rank of stage 3");
        FAIL() << "it fits";
    } catch (const Error& error) {
        EXPECT_EQ(error.exit_code(), 6);
        const std::string text = error.message();
        EXPECT_NE(text.find("a rank of stage 3 needs more memory"), std::string::npos) << text;
        EXPECT_LT(text.find("  logits 2.0 MiB"), text.find("  weights 1.0 MiB")) << text;
    }
}

// What each recomputed module leaves: one of its outputs for all layers, by hand. n = 512 tokens of width
// 512, 8 heads of 64, MLP 2048, bf16 with fp32 statistics.
TEST(PlannedMemory, RecomputedModulesShareTheirOutputs) {
    using model::Recompute;
    constexpr std::int64_t layers = 4, n = 512, hidden = 512, heads = 8, ffn = 2048;
    const auto activations = [&](const Recompute& recompute, bool gated) {
        RunSetup setup = small_setup(layers);
        setup.recompute = recompute;
        if (gated)
            setup.model.activation = catalogue::Activation::swiglu;
        return declare_stages(setup, {backend::Device::cpu, 1})
            .front()
            .bytes[static_cast<std::size_t>(memory::Category::activations)];
    };
    const auto selective = [](bool core_attention, bool norms, bool mlp) {
        return Recompute{Recompute::Mode::selective, 0, {core_attention, norms, mlp}};
    };
    const std::int64_t core = n * hidden * 2 + n * heads * 4; // output, log-sum-exp
    const std::int64_t norm = n * hidden * 2 + 2 * n * 4;     // output, mean and 1 / deviation; two a layer
    for (const bool gated : {false, true}) {
        const std::int64_t all = activations({}, gated);
        const std::int64_t mlp = n * ((gated ? 2 : 1) * ffn + ffn) * 2; // before and after the activation
        EXPECT_EQ(all - activations(selective(true, false, false), gated), (layers - 1) * core);
        EXPECT_EQ(all - activations(selective(false, true, false), gated), (2 * layers - 1) * norm);
        EXPECT_EQ(all - activations(selective(false, false, true), gated), (layers - 1) * mlp);
        EXPECT_EQ(all - activations(selective(true, true, true), gated),
                  (layers - 1) * core + (2 * layers - 1) * norm + (layers - 1) * mlp);
        EXPECT_EQ(activations(selective(false, false, false), gated), all);
    }
}

} // namespace
} // namespace trireme::plan
