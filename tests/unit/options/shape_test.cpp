// Shapes beyond GPT-2's and the type of the weights: values derived by Megatron-LM's rules (worked out by
// hand), and the messages where options contradict each other or would do nothing.
#include <gtest/gtest.h>

#include <algorithm>

#include "support.hpp"

namespace trireme::options {
namespace {

using namespace testing;

// Heads of 12 dimensions; 24 is the smallest hidden size with a default SwiGLU width.
std::string shape(std::string_view more) {
    return concat(kMinimal, "--hidden-size 48 ", more);
}

Resolved::Model model(std::string_view more) {
    return resolve_line(shape(more)).model;
}

TEST(OptionShapes, GPT2WithoutFurtherOptions) {
    const Resolved::Model plain = model("");
    EXPECT_EQ(plain.position_embedding, PositionEmbedding::learned_absolute);
    EXPECT_EQ(plain.rotary_base, 0);
    EXPECT_EQ(plain.rope_scaling_factor, 0.0);
    EXPECT_EQ(plain.normalization, Normalization::layer_norm);
    EXPECT_EQ(plain.norm_epsilon, 1e-5);
    EXPECT_EQ(plain.activation, MlpActivation::gelu);
    EXPECT_EQ(plain.num_query_groups, 4);
    EXPECT_EQ(plain.output_weights, OutputWeights::tied);
    EXPECT_EQ(plain.biases, LinearBiases::all);
}

TEST(OptionShapes, Positions) {
    const Resolved::Model rope = model("--position-embedding-type rope");
    EXPECT_EQ(rope.position_embedding, PositionEmbedding::rope);
    EXPECT_EQ(rope.rotary_base, 10000);
    EXPECT_EQ(rope.rotary_percent, 1.0);
    EXPECT_EQ(rope.rope_scaling_factor, 0.0);
    EXPECT_EQ(model("--position-embedding-type rope --use-rope-scaling").rope_scaling_factor, 8.0);
    const Resolved::Model alias = model(
        "--use-rotary-position-embeddings --no-position-embedding --rotary-base 500000 --rotary-percent 0.5 "
        "--use-rope-scaling --rope-scaling-factor 32");
    EXPECT_EQ(alias.position_embedding, PositionEmbedding::rope);
    EXPECT_EQ(alias.rotary_base, 500000);
    EXPECT_EQ(alias.rotary_percent, 0.5);
    EXPECT_EQ(alias.rope_scaling_factor, 32.0);
    EXPECT_EQ(model("--position-embedding-type none").position_embedding, PositionEmbedding::none);
    EXPECT_EQ(model("--position-embedding-type rope --use-rotary-position-embeddings").position_embedding,
              PositionEmbedding::rope);
}

TEST(OptionShapes, PositionsThatContradict) {
    EXPECT_EQ(
        message_of(shape("--use-rotary-position-embeddings --position-embedding-type none")),
        "trireme: error: --use-rotary-position-embeddings means --position-embedding-type rope, not none\n"
        "  --use-rotary-position-embeddings (command line), --position-embedding-type none (command line)\n"
        "  try: leave out one of the two\n");
    EXPECT_EQ(
        message_of(shape("--no-position-embedding")),
        "trireme: error: learned positions are asked for and switched off\n"
        "  --position-embedding-type learned_absolute (default), --no-position-embedding (command line)\n"
        "  try: --position-embedding-type rope or none, or leave out --no-position-embedding\n");
    EXPECT_EQ(message_of(shape("--rotary-base 500000")),
              "trireme: error: --rotary-base does nothing without --position-embedding-type rope\n"
              "  --rotary-base 500000 (command line), --position-embedding-type learned_absolute (default)\n"
              "  try: --position-embedding-type rope, or leave out --rotary-base\n");
    for (const char* option : {"rotary-percent 0.5", "use-rope-scaling", "rope-scaling-factor 8"})
        EXPECT_NE(message_of(shape(concat("--position-embedding-type none --", option))).find("does nothing"),
                  std::string::npos)
            << option;
    EXPECT_EQ(message_of(shape("--position-embedding-type rope --rope-scaling-factor 4")),
              "trireme: error: --rope-scaling-factor does nothing without --use-rope-scaling\n"
              "  --rope-scaling-factor 4 (command line)\n"
              "  try: give --use-rope-scaling, or leave out --rope-scaling-factor\n");
    EXPECT_EQ(
        message_of(shape("--position-embedding-type rope --rotary-percent 0.25")),
        "trireme: error: rope rotates pairs: 3 of a head's 12 dimensions are not an even number of at least "
        "2\n"
        "  --kv-channels 12 (derived), --rotary-percent 0.25 (command line)\n"
        "  try: another --kv-channels (or hidden size or number of heads), or another --rotary-percent\n");
    EXPECT_NE(message_of(shape("--position-embedding-type rope --seq-length 64"))
                  .find("longer than the 32 positions"),
              std::string::npos);
    EXPECT_EQ(message_of(shape("--position-embedding-type rope --rotary-percent 1.5")),
              "trireme: error: --rotary-percent takes a number above 0 and at most 1, not '1.5'\n"
              "  --rotary-percent 1.5 (command line)\n");
}

TEST(OptionShapes, NormsAndBiasesAndOutput) {
    const Resolved::Model llama = model("--normalization RMSNorm --norm-epsilon 1e-6 --disable-bias-linear "
                                        "--untie-embeddings-and-output-weights");
    EXPECT_EQ(llama.normalization, Normalization::rms_norm);
    EXPECT_EQ(llama.norm_epsilon, 1e-6);
    EXPECT_EQ(llama.biases, LinearBiases::none);
    EXPECT_EQ(llama.output_weights, OutputWeights::untied);
    EXPECT_EQ(model("--disable-bias-linear --add-qkv-bias").biases, LinearBiases::query_key_value);
    const Resolved already = resolve_line(shape("--add-qkv-bias"));
    EXPECT_EQ(already.model.biases, LinearBiases::all);
    EXPECT_EQ(already.notes,
              std::vector<std::string>{"--add-qkv-bias (command line): already so, all linear layers "
                                       "have biases without --disable-bias-linear"});
    EXPECT_NE(message_of(shape("--norm-epsilon 0")).find("takes a number above 0, not '0'"),
              std::string::npos);
}

TEST(OptionShapes, SwigluSetsTheWidthOfTheMlp) { // 8/3 of hidden, down to a multiple of 64
    const auto width = [](std::string_view more) {
        return resolve_line(concat(kMinimal, "--swiglu ", more)).model;
    };
    EXPECT_EQ(width("--hidden-size 24").ffn_hidden_size, 64);
    EXPECT_EQ(width("--hidden-size 44").ffn_hidden_size, 64);      // 117.3
    EXPECT_EQ(width("--hidden-size 4096").ffn_hidden_size, 10880); // 10922.7
    EXPECT_EQ(width("--hidden-size 4096").activation, MlpActivation::swiglu);
    EXPECT_EQ(width("--hidden-size 4096 --ffn-hidden-size 11008").ffn_hidden_size, 11008);
    EXPECT_EQ(
        message_of(concat(kMinimal, "--swiglu")),
        "trireme: error: 8/3 of the hidden size, down to a multiple of 64, leaves no width for the MLP\n"
        "  --hidden-size 8 (command line), --swiglu (command line), --ffn-hidden-size (not given)\n"
        "  try: --ffn-hidden-size 24\n");
}

TEST(OptionShapes, QueryGroups) {
    EXPECT_EQ(model("--group-query-attention").num_query_groups, 1);
    EXPECT_EQ(model("--group-query-attention --num-query-groups 2").num_query_groups, 2);
    EXPECT_EQ(message_of(shape("--num-query-groups 2")),
              "trireme: error: --num-query-groups does nothing without --group-query-attention\n"
              "  --num-query-groups 2 (command line)\n"
              "  try: give --group-query-attention, or leave out --num-query-groups\n");
    EXPECT_EQ(message_of(shape("--num-attention-heads 12 --group-query-attention --num-query-groups 8")),
              "trireme: error: 12 attention heads cannot be shared out to 8 query groups: the number of "
              "heads must be "
              "a multiple of it\n"
              "  --num-attention-heads 12 (command line), --num-query-groups 8 (command line)\n"
              "  try: --num-query-groups 4\n");
    // Fewer groups than tensor ranks: several ranks hold the same.
    EXPECT_EQ(
        message_of(shape("--group-query-attention --num-query-groups 2 --tensor-model-parallel-size 4"), 4),
        "no error");
    EXPECT_EQ(message_of(shape("--num-attention-heads 12 --group-query-attention --num-query-groups 4 "
                               "--tensor-model-parallel-size 6 --ffn-hidden-size 48"),
                         6),
              "trireme: error: 4 query groups cannot be shared by TP 6: one must be a multiple of the other\n"
              "  --num-query-groups 4 (command line), --tensor-model-parallel-size 6 (command line)\n"
              "  try: --tensor-model-parallel-size 2, or --num-query-groups 2 or 6\n");
    EXPECT_EQ(message_of(shape("--num-attention-heads 12 --group-query-attention --num-query-groups 6 "
                               "--tensor-model-parallel-size 4"),
                         4),
              "trireme: error: 6 query groups cannot be shared by TP 4: one must be a multiple of the "
              "other\n"
              "  --num-query-groups 6 (command line), --tensor-model-parallel-size 4 (command line)\n"
              "  try: --num-query-groups 4 or 8\n");
}

TEST(OptionShapes, TypesOfWeights) {
    EXPECT_EQ(model("--bf16").params_dtype, ParamsDtype::bf16);
    EXPECT_EQ(model("--params-dtype bf16").params_dtype, ParamsDtype::bf16);
    EXPECT_EQ(model("--params-dtype bf16 --bf16").params_dtype, ParamsDtype::bf16);
    EXPECT_EQ(message_of(shape("--bf16 --params-dtype fp32")),
              "trireme: error: --bf16 means --params-dtype bf16, not fp32\n"
              "  --bf16 (command line), --params-dtype fp32 (command line)\n"
              "  try: leave out one of the two\n");
}

TEST(OptionShapes, ACheckpointHandsTheShapeOn) {
    const Resolved run = resolve_line(
        shape("--use-rotary-position-embeddings --use-rope-scaling --normalization RMSNorm --norm-epsilon "
              "1e-6 --swiglu "
              "--group-query-attention --num-query-groups 2 --untie-embeddings-and-output-weights "
              "--disable-bias-linear --add-qkv-bias"));
    const Inherited saved{to_config(run.values, run.sources), "x"};
    const auto generate = [&](const Inherited& from, std::string_view more) {
        return resolve(parse(Command::generate, words(concat("--load x --prompt a ", more)), from), {}).model;
    };
    const Resolved::Model again = generate(saved, "");
    EXPECT_EQ(again.position_embedding, PositionEmbedding::rope);
    EXPECT_EQ(again.rotary_base, 10000);
    EXPECT_EQ(again.rotary_percent, 1.0);
    EXPECT_EQ(again.rope_scaling_factor, 8.0);
    EXPECT_EQ(again.normalization, Normalization::rms_norm);
    EXPECT_EQ(again.norm_epsilon, 1e-6);
    EXPECT_EQ(again.activation, MlpActivation::swiglu);
    EXPECT_EQ(again.ffn_hidden_size, 128);
    EXPECT_EQ(again.num_query_groups, 2);
    EXPECT_EQ(again.output_weights, OutputWeights::untied);
    EXPECT_EQ(again.biases, LinearBiases::query_key_value);
    // The type may be said anew; what a plain model leaves out does not come back as an option that does
    // nothing.
    EXPECT_EQ(again.params_dtype, ParamsDtype::fp32);
    EXPECT_EQ(generate(saved, "--bf16").params_dtype, ParamsDtype::bf16);
    const Resolved plain = resolve_line(shape("--bf16"));
    const Inherited plain_saved{to_config(plain.values, plain.sources), "x"};
    EXPECT_EQ(generate(plain_saved, "").params_dtype, ParamsDtype::bf16);
    EXPECT_EQ(generate(plain_saved, "--params-dtype fp32").params_dtype, ParamsDtype::fp32);
    EXPECT_EQ(generate(plain_saved, "").position_embedding, PositionEmbedding::learned_absolute);
}

TEST(OptionShapes, Listing) {
    const std::vector<std::string> lines =
        listing(resolve_line(shape("--position-embedding-type rope --bf16")));
    const auto has = [&](const std::string& line) {
        return std::find(lines.begin(), lines.end(), line) != lines.end();
    };
    EXPECT_TRUE(has("  position-embedding-type ......................... rope (command line)"));
    EXPECT_TRUE(has("  rotary-base ..................................... 10000 (derived)"));
    EXPECT_TRUE(has("  rope-scaling-factor ............................. none"));
    EXPECT_TRUE(has("  params-dtype .................................... bf16 (derived)"));
    EXPECT_TRUE(has("  norm-epsilon .................................... 1e-05"));
}

} // namespace
} // namespace trireme::options
