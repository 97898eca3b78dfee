// --config FILE: the format, whose value wins, paths relative to the file, and lines named in messages.
#include "trireme/options/parse.hpp"

#include <gtest/gtest.h>

#include "support.hpp"

namespace trireme::options {
namespace {

using namespace testing;

TEST(OptionFile, Format) {
    const TemporaryDirectory directory;
    const std::string file =
        directory.write("run/tiny.cfg", "# a comment\n"
                                        "\n"
                                        "num-layers = 4   # after a value\n"
                                        "  lr=0.001\r\n"
                                        "finetune = true\n"
                                        "recompute-activations = false\n"
                                        "split = 98, 2, 0\n"
                                        "data-path = 0.7 wiki 0.3 \"two words\" /abs/books\n"
                                        "vocab-file = ../v#1.json\n"
                                        "prompt = \"a # \\\"b\\\"\\n\" # c\n"
                                        "use-mcore-models = true\n"
                                        "fp16 = false");
    const Parsed parsed = parse_line("--config " + file + " --lr 0.5");
    EXPECT_TRUE(parsed.problems.empty()) << parsed.problems[0].what;
    EXPECT_EQ(parsed.values.num_layers, 4);
    EXPECT_EQ(parsed.values.lr, 0.5) << "the command line wins";
    EXPECT_TRUE(parsed.values.finetune);
    EXPECT_FALSE(parsed.values.recompute_activations);
    EXPECT_EQ(parsed.values.split, "98, 2, 0");
    EXPECT_EQ(parsed.values.data_path,
              (std::vector<std::string>{"0.7", directory.path("run/wiki"), "0.3",
                                        directory.path("run/two words"), "/abs/books"}));
    EXPECT_EQ(parsed.values.vocab_file, directory.path("v#1.json"));
    EXPECT_EQ(parsed.values.prompt, "a # \"b\"\n");
    EXPECT_EQ(parsed.notes.size(), 1U);
    EXPECT_EQ(parsed.sources.of("num-layers"), file + ":3");
    EXPECT_EQ(parsed.sources.of("lr"), "command line");
    EXPECT_EQ(parsed.sources.of("split"), file + ":7");
}

TEST(OptionFile, MistakesNameTheirLines) {
    const TemporaryDirectory directory;
    const std::string file = directory.write("bad.cfg", "num-layers = many\n"
                                                        "num-layrs = 3\n"
                                                        "just words\n"
                                                        "--lr = 3\n"
                                                        "hidden-size = 8\n"
                                                        "hidden-size = 16\n"
                                                        "finetune\n"
                                                        "finetune =\n"
                                                        "finetune = yes\n"
                                                        "squared-relu = true\n"
                                                        "config = other.cfg\n"
                                                        "split = \"98\n");
    std::vector<std::string> seen;
    for (const Problem& problem : parse_line("--config " + file).problems)
        seen.push_back(problem.what + " | " + problem.details[0]);
    const std::vector<std::string> expected{
        "'just words' is not `name = value` | " + file + ":3",
        "'--lr = 3' is not `name = value` | " + file + ":4",
        "hidden-size stands twice in one file | " + file + ":5",
        "'finetune' is not `name = value` | " + file + ":7",
        "finetune stands twice in one file | " + file + ":8",
        "the quotes of split do not enclose its value | " + file + ":12",
        "--num-layers takes a whole number of at least 1, not 'many' | --num-layers many (" + file + ":1)",
        "--num-layrs is not an option of trireme pretrain | --num-layrs 3 (" + file + ":2)",
        "finetune has no value: write finetune = true | --finetune (" + file + ":8)",
        "--squared-relu is not in this version of trireme: the MLP is GELU or, with --swiglu, SwiGLU | "
        "--squared-relu true (" +
            file + ":10)",
        "--config belongs on the command line | --config other.cfg (" + file + ":11)",
    };
    EXPECT_EQ(seen, expected);
}

TEST(OptionFile, MissingFile) {
    const Parsed parsed = parse_line("--config /nonexistent/x.cfg");
    ASSERT_EQ(parsed.problems.size(), 1U);
    EXPECT_NE((parsed.problems[0].what + parsed.problems[0].details[0]).find("/nonexistent/x.cfg"),
              std::string::npos);
    EXPECT_EQ(parsed.problems[0].details.back(), "--config /nonexistent/x.cfg (command line)");
    EXPECT_EQ(message_of(parsed, {}).find("missing"), std::string::npos)
        << "what is missing may stand in the file";
    EXPECT_NE(message_of(parse_line("--config a --config b"), {}).find("--config takes one file, once"),
              std::string::npos);
}

TEST(OptionFile, OneFileServesSeveralCommands) {
    const TemporaryDirectory directory;
    const std::string file = directory.write("all.cfg", "train-iters = 5\nprompt = hello\n");
    EXPECT_TRUE(parse_line("--config " + file).problems.empty());
    EXPECT_TRUE(parse_line("--config " + file, Command::generate).problems.empty());
}

TEST(OptionFile, WhatACheckpointKeepsReadsBack) {
    Parsed parsed =
        parse_line("--num-layers 3 --lr 0.1 --finetune --data-path 0.5 /a/b 0.5 /c --adam-eps 1e-12 "
                   "--tokenizer-type GPT2BPETokenizer --vocab-file v.json --seed 77");
    parsed.values.prompt = "line one\n\t\"two\" # \\three";
    parsed.values.data_path.push_back("/with blank/x");
    const std::string text = to_config(parsed.values, parsed.sources);
    const TemporaryDirectory directory;
    const Parsed again = parse_line("--config " + directory.write("again.cfg", text));
    EXPECT_TRUE(again.problems.empty()) << again.problems[0].what;
    EXPECT_EQ(to_config(again.values, again.sources), text);
    EXPECT_EQ(again.values.prompt, parsed.values.prompt);
    EXPECT_EQ(again.values.data_path, parsed.values.data_path);
    EXPECT_EQ(again.values.adam_eps, 1e-12);
    EXPECT_EQ(again.values.seed, 77);
    EXPECT_TRUE(again.values.finetune);
    EXPECT_EQ(again.values.vocab_file, (std::filesystem::current_path() / "v.json").string());
    EXPECT_FALSE(again.values.hidden_size.has_value());
}

TEST(OptionFile, ACheckpointHandsOnTheModelAndNothingElse) {
    const Inherited inherited{"num-layers = 7\nhidden-size = 64\nlr = 0.3\ntensor-model-parallel-size = 4\n",
                              "ckpt/iter_0000010"};
    const std::vector<std::string> arguments{"--hidden-size", "32"};
    const Parsed parsed = parse(Command::evaluate, arguments, inherited);
    EXPECT_TRUE(parsed.problems.empty());
    EXPECT_EQ(parsed.values.num_layers, 7);
    EXPECT_EQ(parsed.values.hidden_size, 32);
    EXPECT_EQ(parsed.values.tensor_model_parallel_size, 1);
    EXPECT_FALSE(parsed.values.lr.has_value());
    EXPECT_EQ(parsed.sources.of("num-layers"), "ckpt/iter_0000010");
}

} // namespace
} // namespace trireme::options
