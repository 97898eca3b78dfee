// Contradictions between options: the exact messages, all of them together, and no echo of one mistake in
// another.
#include <gtest/gtest.h>

#include "support.hpp"

namespace trireme::options {
namespace {

using namespace testing;

std::string minimal(std::string_view more) {
    return std::string(kMinimal) + std::string(more);
}

TEST(OptionRules, RanksThatDoNotFit) { // DESIGN.md's example, to the letter
    EXPECT_EQ(message_of(minimal("--tensor-model-parallel-size 4"), 6),
              "trireme: error: 6 ranks do not fit TP 4 x PP 1: the number of ranks must be a multiple of 4\n"
              "  --tensor-model-parallel-size 4 (command line), --pipeline-model-parallel-size 1 (default), "
              "ranks 6 (mpirun)\n"
              "  try: 4 or 8 ranks, or --tensor-model-parallel-size 2\n");
    EXPECT_EQ(message_of(minimal("--tensor-model-parallel-size 2"), 1),
              "trireme: error: 1 rank does not fit TP 2 x PP 1: the number of ranks must be a multiple of 2\n"
              "  --tensor-model-parallel-size 2 (command line), --pipeline-model-parallel-size 1 (default), "
              "ranks 1 (mpirun)\n"
              "  try: 2 ranks, or --tensor-model-parallel-size 1\n");
    EXPECT_EQ(message_of(minimal("--pipeline-model-parallel-size 2"), 3),
              "trireme: error: 3 ranks do not fit TP 1 x PP 2: the number of ranks must be a multiple of 2\n"
              "  --tensor-model-parallel-size 1 (default), --pipeline-model-parallel-size 2 (command line), "
              "ranks 3 (mpirun)\n"
              "  try: 2 or 4 ranks, or --pipeline-model-parallel-size 1\n");
}

TEST(OptionRules, HugeLayoutsDoNotOverflow) {
    const std::string message = message_of(
        minimal("--num-attention-heads 1152921504606846976 --hidden-size 1152921504606846976 "
                "--num-layers 1152921504606846976 --tensor-model-parallel-size 1152921504606846976 "
                "--pipeline-model-parallel-size 1152921504606846976"),
        4);
    EXPECT_NE(message.find("is more than there are ranks"), std::string::npos) << message;
}

TEST(OptionRules, Shape) {
    EXPECT_EQ(
        message_of(minimal("--num-attention-heads 6 --hidden-size 12 --tensor-model-parallel-size 4"), 4),
        "trireme: error: 6 attention heads cannot be shared by TP 4: the number of heads must be a multiple "
        "of "
        "it\n"
        "  --num-attention-heads 6 (command line), --tensor-model-parallel-size 4 (command line)\n"
        "  try: --num-attention-heads 4 or 8\n");
    EXPECT_EQ(message_of(minimal("--hidden-size 10")),
              "trireme: error: hidden size 10 is not a multiple of 4 attention heads\n"
              "  --hidden-size 10 (command line), --num-attention-heads 4 (command line), --kv-channels (not "
              "given)\n"
              "  try: --hidden-size 8 or 12, or give --kv-channels\n");
    EXPECT_EQ(message_of(minimal("--seq-length 64")),
              "trireme: error: sequences of 64 tokens are longer than the 32 positions of the model\n"
              "  --seq-length 64 (command line), --max-position-embeddings 32 (command line)\n"
              "  try: --max-position-embeddings 64\n");
    EXPECT_EQ(message_of(minimal("--pipeline-model-parallel-size 4"), 4),
              "trireme: error: 2 layers do not fill 4 pipeline stages: each needs a layer\n"
              "  --num-layers 2 (command line), --pipeline-model-parallel-size 4 (command line)\n"
              "  try: --pipeline-model-parallel-size 2\n");
    EXPECT_EQ(
        message_of(minimal("--ffn-hidden-size 30 --tensor-model-parallel-size 4"), 4),
        "trireme: error: an MLP of width 30 cannot be shared by TP 4: the width must be a multiple of it\n"
        "  --ffn-hidden-size 30 (command line), --tensor-model-parallel-size 4 (command line)\n"
        "  try: --ffn-hidden-size 28 or 32\n");
}

TEST(OptionRules, Batches) {
    EXPECT_EQ(
        message_of(minimal("--micro-batch-size 2 --global-batch-size 30"), 8),
        "trireme: error: global batch 30 is not a multiple of 16 (micro-batch 2 x DP 8)\n"
        "  --global-batch-size 30 (command line), --micro-batch-size 2 (command line), ranks 8 (mpirun)\n"
        "  try: --global-batch-size 16 or 32\n");
    EXPECT_EQ(
        message_of(minimal("--global-batch-size 64 --gradient-accumulation-steps 16"), 2),
        "trireme: error: global batch 64 is not micro-batch 1 x DP 2 x 16 accumulation steps = 32\n"
        "  --global-batch-size 64 (command line), --micro-batch-size 1 (command line), "
        "--gradient-accumulation-steps 16 (command line), ranks 2 (mpirun)\n"
        "  try: --global-batch-size 32, or --gradient-accumulation-steps 32, or leave out one of the two\n");
    EXPECT_EQ(
        message_of(minimal("--global-batch-size 3"), 4),
        "trireme: error: global batch 3 is not a multiple of 4 (micro-batch 1 x DP 4)\n"
        "  --global-batch-size 3 (command line), --micro-batch-size 1 (command line), ranks 4 (mpirun)\n"
        "  try: --global-batch-size 4\n");
    EXPECT_NE(
        message_of(
            minimal("--micro-batch-size 1000000000000000 --gradient-accumulation-steps 1000000000000000"))
            .find("beyond counting"),
        std::string::npos);
}

TEST(OptionRules, Recompute) {
    EXPECT_EQ(message_of(minimal("--recompute-granularity full")),
              "trireme: error: full recompute needs a method\n"
              "  --recompute-granularity full (command line), --recompute-method (not given)\n"
              "  try: --recompute-method uniform --recompute-num-layers 1 (least memory), or selective\n");
    EXPECT_NE(message_of(minimal("--recompute-granularity full --recompute-method block"))
                  .find("a number of layers"),
              std::string::npos);
    EXPECT_NE(
        message_of(
            minimal("--recompute-granularity selective --recompute-method block --recompute-num-layers 1"))
            .find("belong to full recompute"),
        std::string::npos);
    EXPECT_NE(message_of(minimal("--recompute-num-layers 1")).find("belong to full recompute"),
              std::string::npos);
    EXPECT_NE(
        message_of(minimal("--recompute-activations --recompute-granularity full --recompute-method uniform "
                           "--recompute-num-layers 1"))
            .find("means selective recompute, not full"),
        std::string::npos);
}

TEST(OptionRules, LengthAndLearningRate) {
    EXPECT_EQ(message_of(minimal("--train-samples 100")),
              "trireme: error: training has one length: iterations or samples\n"
              "  --train-iters 10 (command line), --train-samples 100 (command line)\n"
              "  try: leave out one of the two\n");
    EXPECT_EQ(message_of(minimal("--lr-warmup-samples 5")),
              "trireme: error: iterations and samples cannot be mixed: training is counted in iterations\n"
              "  --lr-warmup-samples 5 (command line), --train-iters 10 (command line)\n"
              "  try: --lr-warmup-iters\n");
    EXPECT_EQ(message_of(minimal("--lr-warmup-iters 10")),
              "trireme: error: a warm-up of 10 is not shorter than the decay of 10 iterations\n"
              "  --lr-warmup-iters 10 (command line), --lr-decay-iters 10 (derived)\n"
              "  try: --lr-warmup-iters 0\n");
    EXPECT_EQ(message_of(minimal("--min-lr 0.01")),
              "trireme: error: the lowest learning rate 0.01 is above the highest 0.001\n"
              "  --min-lr 0.01 (command line), --lr 0.001 (command line)\n"
              "  try: --min-lr 1e-04\n");
    EXPECT_NE(message_of(minimal("--lr-warmup-iters 2 --lr-warmup-fraction 0.1"))
                  .find("the warm-up has one length"),
              std::string::npos);
    std::string by_samples(kMinimal);
    by_samples.replace(by_samples.find("--train-iters 10"), 16, "--train-samples 4");
    EXPECT_NE(
        message_of(by_samples + "--global-batch-size 8").find("4 samples do not make one global batch of 8"),
        std::string::npos);
    EXPECT_NE(message_of(by_samples + "--lr-decay-iters 4").find("training is counted in samples"),
              std::string::npos);
}

TEST(OptionRules, OptionsThatWouldDoNothing) {
    EXPECT_EQ(message_of(minimal("--eval-iters 5")),
              "trireme: error: --eval-iters does nothing without --eval-interval\n"
              "  --eval-iters 5 (command line)\n"
              "  try: --eval-interval 1000 (Megatron-LM's former default), or leave out --eval-iters\n");
    EXPECT_EQ(message_of(minimal("--eval-iters 0")), "no error");
    EXPECT_EQ(message_of(minimal("--save-interval 5")),
              "trireme: error: --save-interval does nothing without --save\n"
              "  --save-interval 5 (command line)\n"
              "  try: give --save, or leave out --save-interval\n");
    for (const char* name : {"finetune", "no-load-optim", "no-load-rng", "exit-on-missing-checkpoint"}) {
        EXPECT_NE(
            message_of(minimal(concat("--", name))).find(concat("--", name, " does nothing without --load")),
            std::string::npos);
        EXPECT_EQ(message_of(minimal(concat("--load x --", name))), "no error");
    }
}

TEST(OptionRules, StripesAreWhatLustreHas) {
    const auto stripes = [](std::string_view more) {
        const Resolved::Checkpoint checkpoint = resolve_line(minimal(more)).checkpoint;
        return std::pair(checkpoint.save_stripe_count, checkpoint.save_stripe_bytes);
    };
    using Pair = std::pair<std::int64_t, std::int64_t>;
    EXPECT_EQ(stripes("--save dir"), Pair(0, 0));
    EXPECT_EQ(stripes("--save dir --save-stripe-count 8 --save-stripe-size 4M"), Pair(8, 4194304));
    EXPECT_EQ(stripes("--save dir --save-stripe-count -1 --save-stripe-size 64K"), Pair(-1, 65536));
    EXPECT_EQ(stripes("--save dir --save-stripe-size 1G").second, 1073741824);
    EXPECT_EQ(stripes("--save dir --save-stripe-size 16MiB").second, 16777216);
    EXPECT_EQ(stripes("--save dir --save-stripe-size 131072").second, 131072);
    for (const std::string size : {"100K", "4", "0", "0M", "4G", "-4M", "4MB", "M", "4 M", "4m", "much"})
        EXPECT_EQ(message_of(parse(Command::pretrain,
                                   [&] {
                                       std::vector<std::string> all = words(minimal("--save dir"));
                                       all.insert(all.end(), {"--save-stripe-size", size});
                                       return all;
                                   }()),
                             {}),
                  "trireme: error: the stripes of Lustre are multiples of 64 KiB below 4 GiB\n"
                  "  --save-stripe-size " +
                      size +
                      " (command line)\n"
                      "  try: --save-stripe-size 4M\n");
    EXPECT_EQ(message_of(minimal("--save dir --save-stripe-count -2")),
              "trireme: error: --save-stripe-count takes a whole number of at least -1 and at most 2000, not "
              "'-2'\n"
              "  --save-stripe-count -2 (command line)\n");
    EXPECT_EQ(message_of(minimal("--save-stripe-count 4")),
              "trireme: error: --save-stripe-count does nothing without --save\n"
              "  --save-stripe-count 4 (command line)\n"
              "  try: give --save, or leave out --save-stripe-count\n");
}

TEST(OptionRules, Device) {
    EXPECT_EQ(message_of(minimal("--device cuda")), "trireme: error: this build of trireme has no CUDA\n"
                                                    "  --device cuda (command line)\n"
                                                    "  try: --device cpu, or a build with CUDA=1\n");
    EXPECT_EQ(message_of(parse_line(minimal("--device cuda")), {.devices = DeviceSupport::cpu_and_cuda}),
              "no error");
}

TEST(OptionRules, MissingOptionsAreListedAtOnce) {
    std::string without_lr(kMinimal);
    without_lr.replace(without_lr.find("--lr 0.001"), 10, "");
    EXPECT_EQ(message_of(without_lr),
              "trireme: error: --lr is missing\n"
              "  --lr X: highest learning rate\n"
              "  try: give them on the command line or in a file with --config FILE; trireme "
              "pretrain --help shows all\n");
    const std::string all = message_of("");
    EXPECT_EQ(
        all.substr(0, all.find('\n')),
        "trireme: error: --num-layers, --hidden-size, --num-attention-heads, --seq-length, "
        "--max-position-embeddings, --tokenizer-type, --vocab-file, --merge-file, --micro-batch-size, --lr, "
        "--data-path, --train-iters are missing");
}

TEST(OptionRules, EverythingAtOnce) {
    const std::string message =
        message_of(minimal("--tensor-model-parallel-size 3 --seq-length 64 --lrr 1 --tp-comm-overlap "
                           "--min-lr high --recompute-granularity full --eval-iters 5"),
                   4);
    EXPECT_EQ(
        message,
        "trireme: error: 9 mistakes in the options\n"
        "  1. --lrr is not an option of trireme pretrain\n"
        "     --lrr 1 (command line)\n"
        "     try: --lr\n"
        "  2. --tp-comm-overlap is not in this version of trireme: tensor-parallel communication does not "
        "overlap with computing\n"
        "     --tp-comm-overlap (command line)\n"
        "  3. --min-lr takes a number of at least 0, not 'high'\n"
        "     --min-lr high (command line)\n"
        "  4. sequences of 64 tokens are longer than the 32 positions of the model\n"
        "     --seq-length 64 (command line), --max-position-embeddings 32 (command line)\n"
        "     try: --max-position-embeddings 64\n"
        "  5. 4 attention heads cannot be shared by TP 3: the number of heads must be a multiple of it\n"
        "     --num-attention-heads 4 (command line), --tensor-model-parallel-size 3 (command line)\n"
        "     try: --num-attention-heads 3 or 6\n"
        "  6. an MLP of width 32 cannot be shared by TP 3: the width must be a multiple of it\n"
        "     --ffn-hidden-size 32 (derived), --tensor-model-parallel-size 3 (command line)\n"
        "     try: --ffn-hidden-size 30 or 33\n"
        "  7. 4 ranks do not fit TP 3 x PP 1: the number of ranks must be a multiple of 3\n"
        "     --tensor-model-parallel-size 3 (command line), --pipeline-model-parallel-size 1 (default), "
        "ranks 4 (mpirun)\n"
        "     try: 3 or 6 ranks, or --tensor-model-parallel-size 1\n"
        "  8. full recompute needs a method\n"
        "     --recompute-granularity full (command line), --recompute-method (not given)\n"
        "     try: --recompute-method uniform --recompute-num-layers 1 (least memory), or selective\n"
        "  9. --eval-iters does nothing without --eval-interval\n"
        "     --eval-iters 5 (command line)\n"
        "     try: --eval-interval 1000 (Megatron-LM's former default), or leave out --eval-iters\n");
}

TEST(OptionRules, OneMistakeIsReportedOnce) {
    EXPECT_EQ(message_of(minimal("--num-layers many")),
              "trireme: error: --num-layers takes a whole number of at least 1, not 'many'\n"
              "  --num-layers many (command line)\n");
}

TEST(OptionRules, DataIsNamedInOneWay) {
    const auto message = [](std::string_view more) { return message_of(minimal(more)); };
    EXPECT_NE(
        message("--train-data-path a").find("--data-path and --train-data-path cannot be used together"),
        std::string::npos);
    std::string parts(kMinimal);
    parts.replace(parts.find("--data-path corpus"), 18, "--train-data-path 0.7 a 0.3 b");
    EXPECT_EQ(message_of(parts), "no error");
    EXPECT_NE(message_of(parts + "--split 98,2,0").find("--split does nothing with --train-data-path"),
              std::string::npos);
    EXPECT_NE(message_of(parts + "--eval-interval 5").find("--valid-data-path is missing"),
              std::string::npos);
    EXPECT_EQ(message_of(parts + "--eval-interval 5 --valid-data-path c"), "no error");
    const Resolved resolved = resolve_line(parts + "--valid-data-path c --data-cache-path /x");
    EXPECT_EQ(resolved.data.part_paths[0], (std::vector<std::string>{"0.7", "a", "0.3", "b"}));
    EXPECT_EQ(resolved.data.part_paths[1], (std::vector<std::string>{"c"}));
    EXPECT_EQ(resolved.data.cache_path, "/x");
    std::string only_valid(kMinimal);
    only_valid.replace(only_valid.find("--data-path corpus"), 18, "--valid-data-path a");
    EXPECT_NE(message_of(only_valid).find("--train-data-path is missing"), std::string::npos);
}

TEST(OptionRules, EachTokenizerNeedsItsOwnFiles) {
    const auto with = [](std::string_view tokenizer) {
        std::string line(kMinimal);
        return line.replace(line.find("--tokenizer-type"), std::string::npos, tokenizer);
    };
    EXPECT_NE(message_of(with("--tokenizer-type NullTokenizer")).find("--vocab-size is missing"),
              std::string::npos);
    EXPECT_EQ(resolve_line(with("--tokenizer-type NullTokenizer --vocab-size 99")).data.vocab_size, 99);
    EXPECT_NE(message_of(with("--tokenizer-type HFTokenizerFile")).find("--tokenizer-model is missing"),
              std::string::npos);
    EXPECT_EQ(
        resolve_line(with("--tokenizer-type HFTokenizerFile --tokenizer-model t.json")).data.tokenizer_model,
        "t.json");
    EXPECT_NE(message_of(with("--tokenizer-type NullTokenizer --vocab-size 99 --merge-file m"))
                  .find("--merge-file does nothing with this tokenizer"),
              std::string::npos);
    EXPECT_NE(message_of(with("--tokenizer-type SentencePieceTokenizer")).find("HFTokenizerFile"),
              std::string::npos);
}

TEST(OptionRules, StopsThatSave) {
    const auto resolved = [](std::string_view more, bool under_slurm) {
        return resolve(parse_line(minimal(more)), {.ranks = 1, .under_slurm = under_slurm});
    };
    using Signals = std::vector<std::string>;
    EXPECT_EQ(resolved("--save dir", false).exit.signals, Signals{});
    EXPECT_EQ(resolved("--save dir", true).exit.signals, (Signals{"SIGUSR1", "SIGTERM"}));
    EXPECT_EQ(resolved("--save dir --no-exit-signal-handler", true).exit.signals, Signals{});
    EXPECT_EQ(resolved("", true).exit.signals, Signals{}) << "there is no place to save to";
    EXPECT_EQ(resolved("--save dir --exit-signal-handler", false).exit.signals,
              (Signals{"SIGUSR1", "SIGTERM"}));
    EXPECT_EQ(resolved("--save dir --exit-signal SIGUSR2", true).exit.signals, Signals{"SIGUSR2"});
    EXPECT_EQ(resolved("--exit-duration-in-mins 1.5", false).exit.duration_minutes, 1.5);
    EXPECT_EQ(message_of(minimal("--exit-signal-handler")),
              "trireme: error: --exit-signal-handler does nothing without --save\n"
              "  --exit-signal-handler (command line)\n"
              "  try: give --save, or leave out --exit-signal-handler\n");
    EXPECT_EQ(message_of(minimal("--save dir --exit-signal SIGINT")),
              "trireme: error: --exit-signal does nothing without --exit-signal-handler\n"
              "  --exit-signal SIGINT (command line)\n"
              "  try: give --exit-signal-handler, or leave out --exit-signal\n");
    EXPECT_EQ(message_of(minimal("--save dir --exit-signal-handler --no-exit-signal-handler")),
              "trireme: error: the signal handler is asked for and switched off\n"
              "  --exit-signal-handler (command line), --no-exit-signal-handler (command line)\n"
              "  try: leave out one of the two\n");
}

} // namespace
} // namespace trireme::options
