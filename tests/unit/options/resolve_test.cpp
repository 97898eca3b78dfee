// Derived values and the form that train works from. Expected values are worked out by hand from
// Megatron-LM's rules.
#include "trireme/options/resolve.hpp"

#include <gtest/gtest.h>

#include "support.hpp"

namespace trireme::options {
namespace {

using namespace testing;

std::string minimal(std::string_view more) {
    return std::string(kMinimal) + std::string(more);
}

// article/digest.md, "The script", word for word.
constexpr std::string_view kArticle =
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 --max-position-embeddings "
    "2048 "
    "--micro-batch-size 1 --gradient-accumulation-steps 16 --tensor-model-parallel-size 4 "
    "--pipeline-model-parallel-size 2 --lr 1.5e-4 --train-iters 100000 --lr-decay-style cosine --min-lr 1e-5 "
    "--weight-decay 0.1 --clip-grad 1.0 --data-path /data/train.jsonl --tokenizer-type GPT2BPETokenizer "
    "--vocab-file /data/vocab.json --merge-file /data/merges.txt --split 98,2,0 --log-interval 10 "
    "--save-interval 1000 --eval-interval 1000 --eval-iters 10 --save /checkpoints --load /checkpoints";

TEST(OptionResolving, TheArticlesCommand) {
    const Resolved r = resolve_line(kArticle, 8);
    EXPECT_EQ(r.layout.tensor_parallel, 4);
    EXPECT_EQ(r.layout.pipeline_parallel, 2);
    EXPECT_EQ(r.layout.data_parallel, 1);
    EXPECT_EQ(r.layout.schedule, PipelineSchedule::one_forward_one_backward);
    EXPECT_EQ(r.model.num_layers, 32);
    EXPECT_EQ(r.model.ffn_hidden_size, 16384);
    EXPECT_EQ(r.model.kv_channels, 128);
    EXPECT_EQ(r.model.seq_length, 2048);
    EXPECT_EQ(r.batch.micro_batch_size, 1);
    EXPECT_EQ(r.batch.global_batch_size, 16);
    EXPECT_EQ(r.batch.num_microbatches, 16);
    EXPECT_EQ(r.training.train_iters, 100000);
    EXPECT_EQ(r.training.train_samples, 1600000);
    EXPECT_EQ(r.optimizer.lr, 1.5e-4);
    EXPECT_EQ(r.optimizer.min_lr, 1e-5);
    EXPECT_EQ(r.optimizer.lr_decay_style, LrDecayStyle::cosine);
    EXPECT_EQ(r.optimizer.lr_decay_samples, 1600000);
    EXPECT_EQ(r.optimizer.lr_warmup_samples, 0);
    EXPECT_EQ(r.optimizer.start_weight_decay, 0.1);
    EXPECT_EQ(r.optimizer.end_weight_decay, 0.1);
    EXPECT_EQ(r.optimizer.clip_grad, 1.0);
    EXPECT_EQ(r.data.data_path, std::vector<std::string>{"/data/train.jsonl"});
    EXPECT_EQ(r.data.split, "98,2,0");
    EXPECT_EQ(r.evaluation.eval_interval, 1000);
    EXPECT_EQ(r.evaluation.eval_iters, 10);
    EXPECT_EQ(r.checkpoint.save, "/checkpoints");
    EXPECT_EQ(r.checkpoint.load, "/checkpoints");
    EXPECT_EQ(r.checkpoint.save_interval, 1000);
    EXPECT_TRUE(r.checkpoint.load_optim);
    EXPECT_EQ(r.run.log_interval, 10);
    EXPECT_TRUE(r.notes.empty());
    // The article's cures for full memory and a slow loader.
    const Resolved cured =
        resolve_line(std::string(kArticle) + " --recompute-activations --num-workers 16 "
                                             "--dataloader-type cyclic --no-load-optim --no-load-rng",
                     8);
    EXPECT_EQ(cured.recompute, Recompute::selective);
    EXPECT_EQ(cured.data.num_workers, 16);
    EXPECT_EQ(cured.data.dataloader_type, DataloaderType::cyclic);
    EXPECT_FALSE(cured.checkpoint.load_optim);
    EXPECT_FALSE(cured.checkpoint.load_rng);
}

TEST(OptionResolving, MinimalOnOneRank) {
    const Resolved r = resolve_line(kMinimal);
    EXPECT_EQ(r.layout.data_parallel, 1);
    EXPECT_EQ(r.model.ffn_hidden_size, 32);
    EXPECT_EQ(r.model.kv_channels, 2);
    EXPECT_EQ(r.model.params_dtype, ParamsDtype::fp32);
    EXPECT_EQ(r.batch.global_batch_size, 1);
    EXPECT_EQ(r.recompute, Recompute::none);
    EXPECT_EQ(r.training.seed, 1234U);
    EXPECT_TRUE(r.training.check_for_nan);
    EXPECT_EQ(r.evaluation.eval_interval, 0);
    EXPECT_EQ(r.checkpoint.save, "");
    EXPECT_EQ(r.machine.device, Device::cpu);
    EXPECT_EQ(r.machine.distributed_timeout, std::chrono::minutes(10));
}

TEST(OptionResolving, BatchesDeriveFromEachOther) {
    const auto batch = [](std::string_view more) { // 4 ranks, TP 2: DP 2; micro-batch 3
        return resolve_line(minimal(concat("--tensor-model-parallel-size 2 --micro-batch-size 3 ", more)), 4)
            .batch;
    };
    EXPECT_EQ(batch("").global_batch_size, 6);
    EXPECT_EQ(batch("").num_microbatches, 1);
    EXPECT_EQ(batch("--gradient-accumulation-steps 5").global_batch_size, 30);
    EXPECT_EQ(batch("--gradient-accumulation-steps 5").num_microbatches, 5);
    EXPECT_EQ(batch("--global-batch-size 24").num_microbatches, 4);
    EXPECT_EQ(batch("--global-batch-size 24 --gradient-accumulation-steps 4").num_microbatches, 4);
}

TEST(OptionResolving, WarmUpAndDecayAreCountedInSamples) {
    const auto optimizer = [](std::string_view more) { // 10 iterations of 8 samples
        return resolve_line(minimal(concat("--global-batch-size 8 ", more))).optimizer;
    };
    EXPECT_EQ(optimizer("").lr_decay_samples, 80);
    EXPECT_EQ(optimizer("").lr_warmup_samples, 0);
    EXPECT_EQ(optimizer("--lr-decay-iters 20 --lr-warmup-iters 3").lr_decay_samples, 160);
    EXPECT_EQ(optimizer("--lr-decay-iters 20 --lr-warmup-iters 3").lr_warmup_samples, 24);
    EXPECT_EQ(optimizer("--lr-warmup-fraction 0.25").lr_warmup_samples, 20);
}

TEST(OptionResolving, TrainingCountedInSamples) {
    std::string line(kMinimal);
    line.replace(line.find("--train-iters 10"), 16, "--train-samples 83");
    const Resolved r = resolve_line(line + "--global-batch-size 8 --lr-warmup-samples 13");
    EXPECT_EQ(r.training.train_iters, 10);
    EXPECT_EQ(r.training.train_samples, 80) << "whole steps";
    EXPECT_EQ(r.optimizer.lr_decay_samples, 83);
    EXPECT_EQ(r.optimizer.lr_warmup_samples, 13);
    EXPECT_EQ(resolve_line(line + "--global-batch-size 8 --lr-decay-samples 50").optimizer.lr_decay_samples,
              50);
}

TEST(OptionResolving, RecomputeModes) {
    const auto recompute = [](std::string_view more) { return resolve_line(minimal(more)).recompute; };
    EXPECT_EQ(recompute("--recompute-activations"), Recompute::selective);
    EXPECT_EQ(recompute("--recompute-granularity selective"), Recompute::selective);
    EXPECT_EQ(recompute("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"),
              Recompute::full_uniform);
    const Resolved block = resolve_line(
        minimal("--recompute-granularity full --recompute-method block --recompute-num-layers 2"));
    EXPECT_EQ(block.recompute, Recompute::full_block);
    EXPECT_EQ(block.recompute_num_layers, 2);
}

TEST(OptionResolving, UnevenLayersAreAllowed) {
    EXPECT_EQ(
        resolve_line(minimal("--num-layers 7 --pipeline-model-parallel-size 4 --pipeline-schedule gpipe"), 4)
            .layout.schedule,
        PipelineSchedule::gpipe);
}

TEST(OptionResolving, HeadsMayHaveTheirOwnWidth) {
    const Resolved r = resolve_line(minimal("--hidden-size 10 --kv-channels 3"));
    EXPECT_EQ(r.model.kv_channels, 3);
    EXPECT_EQ(r.model.hidden_size, 10);
}

TEST(OptionResolving, MachineFollowsTheEnvironment) {
    const auto machine = [](std::string_view more, const Environment& environment) {
        return resolve(parse_line(minimal(more)), environment).machine;
    };
    EXPECT_EQ(machine("", {.ranks = 4, .ranks_on_node = 4, .cores_on_node = 18}).threads_per_rank, 4);
    EXPECT_EQ(machine("", {.ranks = 4, .ranks_on_node = 4, .cores_on_node = 2}).threads_per_rank, 1);
    EXPECT_EQ(machine("--threads-per-rank 3", {.cores_on_node = 2}).threads_per_rank, 3);
    EXPECT_EQ(machine("", {.devices = DeviceSupport::cpu_and_cuda}).device, Device::cuda);
    EXPECT_EQ(machine("--device cpu", {.devices = DeviceSupport::cpu_and_cuda}).device, Device::cpu);
    EXPECT_EQ(machine("--timeout-minutes 0.05", {}).distributed_timeout, std::chrono::seconds(3));
}

TEST(OptionResolving, GenerateTakesTheModelFromACheckpoint) {
    const Resolved run = resolve_line(minimal("--global-batch-size 8 --save x"));
    const std::string saved = to_config(run.values, run.sources);
    EXPECT_NE(saved.find("ffn-hidden-size = 32\n"), std::string::npos) << "derived, but the model's";
    EXPECT_NE(saved.find("global-batch-size = 8\n"), std::string::npos);
    EXPECT_EQ(saved.find("gradient-accumulation-steps"), std::string::npos)
        << "derived for this layout alone";
    const std::vector<std::string> arguments{"--load", "x", "--prompt", "Hello", "--top-k", "5"};
    const Resolved r = resolve(parse(Command::generate, arguments, {saved, "x"}), {.ranks = 2});
    EXPECT_EQ(r.model.hidden_size, 8);
    EXPECT_EQ(r.model.kv_channels, 2);
    EXPECT_EQ(r.batch.micro_batch_size, 1);
    EXPECT_EQ(r.layout.data_parallel, 2);
    EXPECT_EQ(r.generation.prompt, "Hello");
    EXPECT_EQ(r.generation.top_k, 5);
    EXPECT_EQ(r.generation.max_new_tokens, 64);
    EXPECT_EQ(r.checkpoint.save, "");
    EXPECT_EQ(r.checkpoint.load, "x");
}

TEST(OptionResolving, EvaluateNeedsNoTrainingOptions) {
    const Resolved run = resolve_line(kMinimal);
    const Inherited saved{to_config(run.values, run.sources), "x"};
    const auto evaluate = [&](std::string_view line) { return parse(Command::evaluate, words(line), saved); };
    const Resolved r =
        resolve(evaluate("--load x --data-path d --eval-iters 7 --micro-batch-size 2"), {.ranks = 3});
    EXPECT_EQ(r.batch.global_batch_size, 6);
    EXPECT_EQ(r.batch.num_microbatches, 1);
    EXPECT_EQ(r.evaluation.eval_iters, 7);
    EXPECT_NE(message_of(evaluate("--load x --data-path d --eval-iters 0"), {})
                  .find("there is nothing to evaluate"),
              std::string::npos);
    EXPECT_NE(message_of(evaluate(""), {}).find("error: --load, --data-path are missing"), std::string::npos);
}

TEST(OptionResolving, DocumentsGoFromTheCheckpointToEvaluate) {
    const Resolved run = resolve_line(minimal("--reset-attention-mask --eod-mask-loss"));
    EXPECT_TRUE(run.data.reset_attention_mask && run.data.eod_mask_loss && !run.data.reset_position_ids);
    const Inherited saved{to_config(run.values, run.sources), "x"};
    const Resolved r = resolve(
        parse(Command::evaluate, words("--load x --data-path d --eval-iters 7 --micro-batch-size 2"), saved),
        {});
    EXPECT_TRUE(r.data.reset_attention_mask && r.data.eod_mask_loss && !r.data.reset_position_ids);
}

// What a GPU's fast attention cannot do is said at the start.
TEST(OptionResolving, NotesTheOwnAttentionOfGpus) {
    const Environment gpus{.devices = DeviceSupport::cpu_and_cuda};
    const auto notes_of = [&](const std::string& options) {
        std::string text;
        for (const std::string& note : resolve(parse(Command::pretrain, words(minimal(options))), gpus).notes)
            text += note + "\n";
        return text;
    };
    const auto has = [](const std::string& text, const char* words) {
        return text.find(words) != std::string::npos;
    };
    const std::string without = "--attention-dropout 0 --bf16 --device cuda ";
    EXPECT_TRUE(
        has(notes_of(without + "--reset-attention-mask"), "--reset-attention-mask: attention on GPUs"));
    EXPECT_TRUE(has(notes_of("--bf16 --device cuda"), "--attention-dropout above 0: attention on GPUs"));
    EXPECT_FALSE(has(notes_of(without), "attention on GPUs"));
    EXPECT_FALSE(has(notes_of("--bf16 --device cpu --reset-attention-mask"), "attention on GPUs"));
}

TEST(OptionResolving, Listing) {
    const std::vector<std::string> lines = listing(resolve_line(minimal("--finetune --load x")));
    EXPECT_TRUE(std::is_sorted(lines.begin(), lines.end()));
    const auto has = [&](const std::string& line) {
        return std::find(lines.begin(), lines.end(), line) != lines.end();
    };
    EXPECT_TRUE(has("  lr .............................................. 0.001 (command line)"));
    EXPECT_TRUE(has("  ffn-hidden-size ................................. 32 (derived)"));
    EXPECT_TRUE(has("  tensor-model-parallel-size ...................... 1"));
    EXPECT_TRUE(has("  finetune ........................................ true (command line)"));
    EXPECT_TRUE(has("  no-load-rng ..................................... false"));
    EXPECT_TRUE(has("  save ............................................ none"));
    for (const std::string& line : lines)
        EXPECT_EQ(line.find("prompt"), std::string::npos) << "an option of generate";
}

} // namespace
} // namespace trireme::options
