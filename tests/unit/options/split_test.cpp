// Options of how layers are split over pipeline stages; the rules themselves are tested in topology.
#include <gtest/gtest.h>

#include "support.hpp"

namespace trireme::options {
namespace {

using namespace testing;
using Sizes = std::vector<std::int64_t>;

Resolved::Layout layout(std::string_view more, int stages) {
    return resolve_line(concat(kMinimal, "--num-layers 8 --pipeline-model-parallel-size ", stages, " ", more),
                        stages)
        .layout;
}

TEST(OptionSplit, StagesThatAreSaid) {
    EXPECT_EQ(layout("", 4).split, topology::PipelineSplit{});
    EXPECT_EQ(layout("--decoder-first-pipeline-num-layers 2 --decoder-last-pipeline-num-layers 4", 4).split,
              (topology::PipelineSplit{.first_stage = 2, .last_stage = 4}));
    using topology::TakesPlace;
    const Resolved::Layout counted = layout(
        "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split --num-layers 6", 4);
    EXPECT_EQ(counted.split,
              (topology::PipelineSplit{.embedding = TakesPlace::yes, .head = TakesPlace::yes}));
    EXPECT_EQ(counted.model_chunks, 1);
    EXPECT_EQ(counted.layer_split, LayerSplit::as_said);
}

TEST(OptionSplit, Chunks) {
    EXPECT_EQ(layout("--num-virtual-stages-per-pipeline-rank 2", 4).model_chunks, 2);
    EXPECT_EQ(layout("--num-virtual-stages-per-pipeline-rank 1", 4).model_chunks, 1);
    EXPECT_EQ(layout("--num-layers-per-virtual-pipeline-stage 2", 2).model_chunks, 2);
    // (6 + 2) / 2 stages / 1.
    EXPECT_EQ(layout("--num-layers-per-virtual-pipeline-stage 1 --num-layers 6 "
                     "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split",
                     2)
                  .model_chunks,
              4);
    EXPECT_EQ(layout("--num-virtual-stages-per-pipeline-rank 2 --decoder-first-pipeline-num-layers 2", 4)
                  .model_chunks,
              2);
}

TEST(OptionSplit, Layouts) {
    const Resolved::Layout said = layout("--pipeline-model-parallel-layout Ett|t|(t|)*4t|L", 4);
    EXPECT_EQ(said.split.pieces, (Sizes{2, 1, 1, 1, 1, 1, 1, 0}));
    EXPECT_EQ(said.model_chunks, 2);
    EXPECT_EQ(said.layer_split, LayerSplit::as_said);
    const Resolved::Layout balanced =
        layout("--pipeline-model-parallel-layout auto --num-virtual-stages-per-pipeline-rank 2", 4);
    EXPECT_EQ(balanced.layer_split, LayerSplit::balanced);
    EXPECT_EQ(balanced.model_chunks, 2);
    EXPECT_TRUE(balanced.split.pieces.empty());
}

// A file of a training on several stages serves generation on one.
TEST(OptionSplit, OneStageHoldsAllLayers) {
    const auto resolved = [](std::string_view more) {
        return resolve(
            parse_line(concat("--num-layers 4 --hidden-size 8 --num-attention-heads 4 --seq-length 16 "
                              "--max-position-embeddings 16 --tokenizer-type NullTokenizer "
                              "--vocab-size 99 --load DIR --prompt 1 ",
                              more),
                       Command::generate),
            {.ranks = 1});
    };
    for (const char* option :
         {"--decoder-first-pipeline-num-layers 1", "--account-for-loss-in-pipeline-split",
          "--pipeline-model-parallel-layout Ett|ttL"}) {
        const Resolved one = resolved(option);
        EXPECT_EQ(one.layout.split, topology::PipelineSplit{}) << option;
        EXPECT_EQ(one.notes.size(), 1U) << option;
    }
}

TEST(OptionSplit, NumbersBeyondAllSense) {
    const std::string most = "4000000000000000";
    for (const std::string option :
         {"--num-virtual-stages-per-pipeline-rank", "--num-layers-per-virtual-pipeline-stage",
          "--decoder-first-pipeline-num-layers", "--pipeline-model-parallel-size"})
        EXPECT_NE(message_of(concat(kMinimal, "--pipeline-model-parallel-size 2 ", option, " ", most), 2)
                      .find(concat(option, " ", most)),
                  std::string::npos)
            << option;
}

TEST(OptionRecompute, Modules) {
    using Module = RecomputeModule;
    const auto modules = [](std::string_view more) {
        return resolve_line(concat(kMinimal, more)).recompute_modules;
    };
    EXPECT_EQ(modules(""), std::vector<Module>{});
    EXPECT_EQ(modules("--recompute-activations"), std::vector<Module>{Module::core_attention});
    EXPECT_EQ(modules("--recompute-granularity selective --recompute-modules mlp layernorm"),
              (std::vector<Module>{Module::mlp, Module::norms}));
    for (const char* other : {"moe", "moe_act", "mla_up_proj", "shared_experts", "attention"})
        EXPECT_NE(
            message_of(concat(kMinimal, "--recompute-activations --recompute-modules core_attn ", other))
                .find("--recompute-modules takes one of core_attn, layernorm, mlp, not '"),
            std::string::npos)
            << other;
}

} // namespace
} // namespace trireme::options
