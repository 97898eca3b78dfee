// Sub-commands: found by their words, their operands told from the values of options, and the rules of the
// checkpoint tools.
#include "trireme/options/commands.hpp"

#include <gtest/gtest.h>

#include "support.hpp"
#include "trireme/options/checkpoint_tool.hpp"

namespace trireme::options {
namespace {

using namespace testing;

TEST(Commands, AreFoundByTheirWords) {
    const auto found = [](std::string_view line) {
        const std::optional<NamedCommand> command = find_command(words(line));
        return command ? concat(name_of(command->command), "/", command->words) : "none";
    };
    EXPECT_EQ(found("pretrain --lr 1"), "pretrain/1");
    EXPECT_EQ(found("checkpoint diff a b"), "checkpoint diff/2");
    EXPECT_EQ(found("checkpoint"), "none");
    EXPECT_EQ(found("checkpoint pretrain"), "none");
    EXPECT_EQ(found("diff a b"), "none");
    EXPECT_EQ(found(""), "none");
    EXPECT_TRUE(is_family("checkpoint"));
    EXPECT_FALSE(is_family("pretrain"));
}

TEST(Commands, UsageNamesAFamilyOnceAndItsMembersOnTheirOwnPage) {
    const std::string all = usage_text(), family = usage_text("checkpoint");
    EXPECT_NE(all.find("  pretrain    train a GPT"), std::string::npos) << all;
    EXPECT_NE(all.find("  checkpoint  inspect"), std::string::npos) << all;
    EXPECT_EQ(all.find("import-hf DIR"), std::string::npos);
    EXPECT_NE(family.find("  checkpoint diff A B "), std::string::npos) << family;
    EXPECT_EQ(family.find("pretrain"), std::string::npos);
}

TEST(Commands, OperandsStandAnywhere) {
    for (const char* line : {"a b", "a --config /nonexistent b", "--config /nonexistent a b"})
        EXPECT_EQ(parse_line(line, Command::checkpoint_diff).operands, (std::vector<std::string>{"a", "b"}))
            << line;
    const Parsed parsed = parse_line("--norms dir", Command::checkpoint_inspect);
    EXPECT_TRUE(parsed.problems.empty());
    EXPECT_TRUE(parsed.values.norms);
    EXPECT_EQ(parsed.operands, std::vector<std::string>{"dir"});
    const Parsed file = parse_line("--load save dir", Command::checkpoint_export_hf);
    EXPECT_EQ(file.values.load, "save");
    EXPECT_EQ(file.operands, std::vector<std::string>{"dir"});
}

TEST(Commands, WrongNumbersOfOperandsAreSaid) {
    const auto problem = [](std::string_view line, Command command) {
        const Parsed parsed = parse_line(line, command);
        return parsed.problems.empty() ? "none" : parsed.problems.back().what;
    };
    EXPECT_EQ(problem("a b c", Command::checkpoint_diff), "trireme checkpoint diff takes A B, not 'a b c'");
    EXPECT_EQ(problem("", Command::checkpoint_verify), "trireme checkpoint verify takes PATH, not nothing");
    EXPECT_EQ(problem("--lr 0.1 x", Command::pretrain), "--lr takes one value, not 2 (0.1 x)")
        << "a run has no operands";
}

TEST(CheckpointTool, Sizes) {
    EXPECT_EQ(to_bytes("5GB"), 5'000'000'000);
    EXPECT_EQ(to_bytes("1.5GiB"), 1'610'612'736);
    EXPECT_EQ(to_bytes("200MB"), 200'000'000);
    EXPECT_EQ(to_bytes("4096"), 4096);
    for (const char* text : {"", "GB", "-1GB", "5 GB", "5gb", "5G", "1e30TB", "nanGB"})
        EXPECT_EQ(to_bytes(text), std::nullopt) << text;
}

TEST(CheckpointTool, RulesAreReportedTogether) {
    const auto message = [](std::string_view line, Command command) -> std::string {
        try {
            resolve_checkpoint_tool(parse_line(line, command));
            return "no error";
        } catch (const Error& error) {
            EXPECT_EQ(error.category(), ErrorCategory::usage);
            return error.message();
        }
    };
    EXPECT_EQ(message("dir --load x", Command::checkpoint_export_hf), "no error");
    const std::string wrong =
        message("dir --max-shard-size 5 --vocab-file v.json", Command::checkpoint_export_hf);
    EXPECT_NE(wrong.find("3 mistakes"), std::string::npos) << wrong;
    EXPECT_NE(wrong.find("--load is missing"), std::string::npos);
    EXPECT_NE(wrong.find("--max-shard-size is a size"), std::string::npos);
    EXPECT_NE(wrong.find("go together"), std::string::npos);
    EXPECT_NE(message("dir", Command::checkpoint_import_hf).find("--save is missing"), std::string::npos);
    EXPECT_NE(message("dir --save x --norms", Command::checkpoint_import_hf)
                  .find("--norms is an option of trireme checkpoint inspect, not of checkpoint import-hf"),
              std::string::npos);
}

TEST(CheckpointTool, TheModelOfACheckpointNeedsNoTokenizer) {
    const Inherited checkpoint{"num-layers = 2\nhidden-size = 48\nnum-attention-heads = 4\nseq-length = 16\n"
                               "max-position-embeddings = 32\nswiglu = true\nlr = 3\n",
                               "x"};
    const Resolved::Model model = model_in(checkpoint);
    EXPECT_EQ(model.ffn_hidden_size, 128);
    EXPECT_EQ(model.kv_channels, 12);
    EXPECT_EQ(model.num_query_groups, 4);
    EXPECT_EQ(model.activation, MlpActivation::swiglu);
    EXPECT_THROW(model_in({"num-layers = 2\n", "x"}), Error);
}

} // namespace
} // namespace trireme::options
