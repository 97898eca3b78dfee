// The table itself: complete, free of contradictions, with Megatron-LM's defaults (written here by hand from
// its documentation, not read from the table).
#include "options/table.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>

#include "options/convert.hpp"

namespace trireme::options {
namespace {

TEST(OptionTable, DefaultsAreMegatrons) {
    const Values v = default_values();
    EXPECT_EQ(v.tensor_model_parallel_size, 1);
    EXPECT_EQ(v.pipeline_model_parallel_size, 1);
    EXPECT_EQ(v.make_vocab_size_divisible_by, 128);
    EXPECT_EQ(v.init_method_std, 0.02);
    EXPECT_EQ(v.hidden_dropout, 0.1);
    EXPECT_EQ(v.attention_dropout, 0.1);
    EXPECT_EQ(v.position_embedding_type, "learned_absolute");
    EXPECT_EQ(v.normalization, "LayerNorm");
    EXPECT_EQ(v.norm_epsilon, 1e-5);
    EXPECT_EQ(v.params_dtype, "fp32");
    EXPECT_FALSE(v.bf16 || v.fp16 || v.swiglu || v.group_query_attention ||
                 v.untie_embeddings_and_output_weights || v.disable_bias_linear || v.add_qkv_bias ||
                 v.use_rope_scaling);
    EXPECT_FALSE(v.rotary_base || v.rotary_percent || v.rope_scaling_factor || v.num_query_groups)
        << "their defaults hold only where they mean something";
    EXPECT_EQ(v.min_lr, 0.0);
    EXPECT_EQ(v.lr_decay_style, "linear");
    EXPECT_EQ(v.weight_decay, 0.01);
    EXPECT_EQ(v.adam_beta1, 0.9);
    EXPECT_EQ(v.adam_beta2, 0.999);
    EXPECT_EQ(v.adam_eps, 1e-8);
    EXPECT_EQ(v.clip_grad, 1.0);
    EXPECT_EQ(v.split, "969, 30, 1");
    EXPECT_EQ(v.dataloader_type, "single");
    EXPECT_EQ(v.num_workers, 2);
    EXPECT_EQ(v.log_interval, 100);
    EXPECT_EQ(v.eval_iters, 100);
    EXPECT_EQ(v.seed, 1234);
    EXPECT_EQ(v.distributed_timeout_minutes, 10.0);
    EXPECT_FALSE(v.no_check_for_nan_in_loss_and_grad);
    EXPECT_FALSE(v.num_layers || v.hidden_size || v.ffn_hidden_size || v.num_attention_heads ||
                 v.kv_channels || v.seq_length || v.max_position_embeddings || v.micro_batch_size ||
                 v.global_batch_size);
    EXPECT_FALSE(v.lr || v.train_iters || v.train_samples || v.lr_decay_iters || v.eval_interval || v.save ||
                 v.load || v.save_interval || v.exit_interval || v.recompute_granularity ||
                 v.recompute_method);
}

TEST(OptionTable, EveryRowSaysWhatItNeeds) {
    for (const Row& row : table()) {
        SCOPED_TRACE(row.name);
        EXPECT_FALSE(row.help.empty());
        EXPECT_TRUE(row.commands.has_value());
        const bool has_field = !std::holds_alternative<std::monostate>(row.field);
        EXPECT_FALSE(has_field && row.status != Status::honoured);
        EXPECT_EQ(row.group == Group::megatron, row.status != Status::honoured);
        EXPECT_TRUE(row.status != Status::honoured || row.placeholder.empty() == (row.arity == Arity::flag));
        if (row.status == Status::renamed) {
            ASSERT_NE(find_row(row.help), nullptr);
            EXPECT_EQ(find_row(row.help)->status, Status::honoured);
        }
    }
}

// The members of Values as its header spells them: "TYPE NAME = DEFAULT;" or "TYPE NAME;" inside the struct.
int fields_in_header() {
    std::ifstream header("include/trireme/options/values.hpp");
    int fields = 0;
    bool inside = false;
    for (std::string line; std::getline(header, line);) {
        if (line == "struct Values {")
            inside = true;
        if (line == "};")
            inside = false;
        fields += inside && line.ends_with(';') ? 1 : 0;
    }
    return fields;
}

TEST(OptionTable, EveryFieldHasOneRow) {
    // A second row for a field would be a second meaning; a field without a row could never be set.
    std::set<std::string> seen;
    int rows_with_field = 0;
    for (const Row& row : table()) {
        EXPECT_TRUE(seen.insert(std::string(row.name)).second) << row.name;
        rows_with_field += std::holds_alternative<std::monostate>(row.field) ? 0 : 1;
    }
    ASSERT_GT(fields_in_header(), 80) << "run from the top of the project";
    EXPECT_EQ(rows_with_field, fields_in_header());
}

TEST(OptionConversion, NumbersCountAsAWhole) {
    EXPECT_EQ(to_integer("42"), 42);
    EXPECT_EQ(to_integer("-3"), -3);
    for (const char* text : {"", " 4", "4 ", "4x", "4.0", "1e3", "0x10", "99999999999999999999"})
        EXPECT_EQ(to_integer(text), std::nullopt) << text;
    EXPECT_EQ(to_number("1.5e-4"), 1.5e-4);
    EXPECT_EQ(to_number("3"), 3.0);
    for (const char* text : {"", "nan", "inf", "-inf", "1,5", "1e999", "0.1x"})
        EXPECT_EQ(to_number(text), std::nullopt) << text;
}

TEST(OptionConversion, NumbersAreShownShort) {
    EXPECT_EQ(show(1.5e-4), "0.00015");
    EXPECT_EQ(show(1e-8), "1e-08");
    EXPECT_EQ(show(0.1), "0.1");
    EXPECT_EQ(show(3), "3");
}

TEST(OptionConversion, RangesHaveTheirEnds) {
    Values v = default_values();
    const Row& dropout = *find_row("hidden-dropout"); // 0 <= x < 1
    EXPECT_FALSE(assign(dropout, {"0"}, v));
    EXPECT_EQ(v.hidden_dropout, 0.0);
    EXPECT_FALSE(assign(dropout, {"0.999"}, v));
    EXPECT_EQ(assign(dropout, {"1"}, v),
              "--hidden-dropout takes a number of at least 0 and below 1, not '1'");
    EXPECT_EQ(v.hidden_dropout, 0.999) << "a refused value leaves the field alone";
    const Row& eps = *find_row("adam-eps"); // 0 < x
    EXPECT_EQ(assign(eps, {"0"}, v), "--adam-eps takes a number above 0, not '0'");
    EXPECT_FALSE(assign(eps, {"1e-12"}, v));
    EXPECT_EQ(assign(*find_row("seed"), {"0"}, v), "--seed takes a whole number of at least 1, not '0'");
    EXPECT_EQ(assign(*find_row("num-layers"), {"2305843009213693952"}, v),
              "--num-layers 2305843009213693952 is too large");
}

} // namespace
} // namespace trireme::options
