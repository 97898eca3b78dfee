// The command line: what is taken, what is refused, and in which words.
#include "trireme/options/parse.hpp"

#include <gtest/gtest.h>

#include "support.hpp"

namespace trireme::options {
namespace {

using namespace testing;

std::string only_problem(std::string_view line, Command command = Command::pretrain) {
    const Parsed parsed = parse_line(line, command);
    if (parsed.problems.size() != 1)
        return concat(parsed.problems.size(), " problems");
    std::string text = parsed.problems[0].what;
    for (const std::string& detail : parsed.problems[0].details)
        text += "\n" + detail;
    return text;
}

TEST(OptionParsing, TypesAndSources) {
    const Parsed parsed =
        parse_line("--num-layers 3 --lr=1.5e-4 --finetune --data-path 0.7 a 0.3 b --min-lr 0");
    EXPECT_TRUE(parsed.problems.empty());
    EXPECT_EQ(parsed.values.num_layers, 3);
    EXPECT_EQ(parsed.values.lr, 1.5e-4);
    EXPECT_TRUE(parsed.values.finetune);
    EXPECT_EQ(parsed.values.data_path, (std::vector<std::string>{"0.7", "a", "0.3", "b"}));
    EXPECT_EQ(parsed.sources.of("num-layers"), "command line");
    EXPECT_EQ(parsed.sources.of("hidden-size"), "default");
    EXPECT_TRUE(parsed.sources.given("min-lr"));
    EXPECT_FALSE(parsed.sources.given("clip-grad"));
}

TEST(OptionParsing, TheLastOfTwoCounts) { // as in Megatron-LM: scripts append overrides
    const Parsed parsed = parse_line("--lr 1 --num-layers 3 --lr 2");
    EXPECT_TRUE(parsed.problems.empty());
    EXPECT_EQ(parsed.values.lr, 2.0);
}

TEST(OptionParsing, TextsMayHoldBlanks) {
    const std::vector<std::string> arguments{"--prompt", "Once upon a time", "--load", "x"};
    const Parsed parsed = parse(Command::generate, arguments);
    EXPECT_TRUE(parsed.problems.empty());
    EXPECT_EQ(parsed.values.prompt, "Once upon a time");
}

TEST(OptionParsing, TimeoutHasTwoNames) {
    const Parsed parsed = parse_line("--timeout-minutes 0.05");
    EXPECT_EQ(parsed.values.distributed_timeout_minutes, 0.05);
    EXPECT_EQ(parsed.sources.of("distributed-timeout-minutes"), "command line");
}

TEST(OptionParsing, NegativeNumbersAreValues) {
    EXPECT_EQ(only_problem("--lr -1"), "--lr takes a number of at least 0, not '-1'\n--lr -1 (command line)");
}

TEST(OptionParsing, WrongValues) {
    EXPECT_EQ(
        only_problem("--num-layers many"),
        "--num-layers takes a whole number of at least 1, not 'many'\n--num-layers many (command line)");
    EXPECT_EQ(only_problem("--lr-decay-style cos"), "--lr-decay-style takes one of constant, linear, cosine, "
                                                    "inverse-square-root, WSD, not 'cos'\n"
                                                    "--lr-decay-style cos (command line)");
    EXPECT_EQ(only_problem("--lr --finetune"), "--lr takes a number of at least 0, but no value follows it\n"
                                               "--lr (command line)");
    EXPECT_EQ(only_problem("--lr 1 2"), "--lr takes one value, not 2 (1 2)\n--lr 1 2 (command line)");
    EXPECT_EQ(only_problem("--finetune true"), "--finetune is a flag: nothing follows it\n"
                                               "--finetune true (command line)");
    EXPECT_EQ(only_problem("stray --lr 1"),
              "unexpected 'stray' on the command line\n"
              "try: options start with two dashes, and values follow their option");
}

TEST(OptionParsing, UnknownNames) {
    EXPECT_EQ(only_problem("--num-layer 4"), "--num-layer is not an option of trireme pretrain\n"
                                             "--num-layer 4 (command line)\n"
                                             "names cannot be abbreviated; try: --num-layers or "
                                             "--num-layers-per-virtual-pipeline-stage");
    EXPECT_EQ(only_problem("--tensor-model 4"),
              "--tensor-model is not an option of trireme pretrain\n"
              "--tensor-model 4 (command line)\n"
              "names cannot be abbreviated; try: --tensor-model-parallel-size");
    EXPECT_EQ(only_problem("--micro_batch_size 4"),
              "--micro_batch_size is not an option of trireme pretrain\n"
              "--micro_batch_size 4 (command line)\ntry: --micro-batch-size");
    EXPECT_EQ(only_problem("--hiden-sise 4"), "--hiden-sise is not an option of trireme pretrain\n"
                                              "--hiden-sise 4 (command line)\ntry: --hidden-size");
    EXPECT_EQ(only_problem("--xyzzy"),
              "--xyzzy is not an option of trireme pretrain\n--xyzzy (command line)");
}

TEST(OptionParsing, NamesOfMegatronThatAreNotTaken) {
    EXPECT_EQ(only_problem("--batch-size 4"),
              "--batch-size is now --micro-batch-size\n--batch-size 4 (command line)");
    EXPECT_EQ(only_problem("--warmup 0.01"),
              "--warmup is now --lr-warmup-fraction\n--warmup 0.01 (command line)");
    EXPECT_EQ(only_problem("--squared-relu"),
              "--squared-relu is not in this version of trireme: the MLP is GELU or, with --swiglu, SwiGLU\n"
              "--squared-relu (command line)");
    EXPECT_EQ(only_problem("--nproc_per_node 8"),
              "--nproc_per_node cannot be taken: ranks are started by mpirun or "
              "srun, which say who they are\n--nproc_per_node 8 (command line)");
    EXPECT_EQ(
        only_problem("--eval-global-batch-size 16"),
        "--eval-global-batch-size is not in this version of trireme: evaluation uses the global batch size "
        "of training\n--eval-global-batch-size 16 (command line)");
    for (const char* name : {"--tp-comm-overlap", "--grad-reduce-in-bf16", "--rotary-interleaved"})
        EXPECT_EQ(parse_line(name).problems.size(), 1U) << name;
}

TEST(OptionParsing, AlreadySoIsSaid) {
    const Parsed parsed =
        parse_line("--use-mcore-models --distributed-backend nccl --ckpt-format torch_dist "
                   "--context-parallel-size 1 --use-flash-attn "
                   "--no-gradient-accumulation-fusion --attention-backend auto --transformer-impl local");
    EXPECT_TRUE(parsed.problems.empty());
    ASSERT_EQ(parsed.notes.size(), 8U);
    EXPECT_EQ(parsed.notes[0],
              "--use-mcore-models (command line): already so, there is one implementation of the model");
    EXPECT_EQ(parsed.notes[1],
              "--distributed-backend nccl (command line): already so, ranks talk through MPI (CPU) "
              "or NCCL (GPU)");
    EXPECT_EQ(only_problem("--context-parallel-size 2"),
              "--context-parallel-size takes 1, not '2': there is no context parallelism in this version\n"
              "--context-parallel-size 2 (command line)");
}

TEST(OptionParsing, CommandsHaveTheirOwn) {
    EXPECT_EQ(only_problem("--prompt x"), "--prompt is an option of trireme generate, not of pretrain\n"
                                          "--prompt x (command line)");
    EXPECT_EQ(
        only_problem("--train-iters 5", Command::generate),
        "--train-iters is an option of trireme pretrain, not of generate\n--train-iters 5 (command line)");
}

TEST(OptionParsing, HelpIsGrouped) {
    EXPECT_TRUE(parse_line("--help").help_requested);
    const std::string help = help_text(Command::pretrain);
    const auto model = help.find("\nModel\n");
    const auto layers = help.find("  --num-layers N\n");
    const auto recompute = help.find("\nRecompute\n");
    EXPECT_TRUE(model < layers && layers < recompute && recompute != std::string::npos);
    EXPECT_EQ(help.find("--prompt"), std::string::npos);
    EXPECT_NE(help_text(Command::generate).find("--prompt TEXT"), std::string::npos);
    EXPECT_NE(help.find("also --timeout-minutes"), std::string::npos);
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);)
        EXPECT_LE(line.size(), 100U) << line;
}

} // namespace
} // namespace trireme::options
