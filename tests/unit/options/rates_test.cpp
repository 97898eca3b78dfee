// Options of precision, overlap, growing batches and rates: what they come to, and the messages of what does
// not go together.
#include <gtest/gtest.h>

#include "support.hpp"

namespace trireme::options {
namespace {

using namespace testing;
using topology::BatchSchedule;

std::string minimal(std::string_view more) {
    return std::string(kMinimal) + std::string(more);
}
// kMinimal counts iterations; this one samples.
std::string by_samples(std::string_view more) {
    std::string text(kMinimal);
    const std::string iterations = "--train-iters 10 ";
    return text.replace(text.find(iterations), iterations.size(), "--train-samples 1000 ") +
           std::string(more);
}
// The first line of the message, without "trireme: error: ".
std::string what(const std::string& options, std::int64_t ranks = 1) {
    const std::string message = message_of(options, ranks);
    const std::size_t begin = message.find("error: ");
    return begin == std::string::npos ? message : message.substr(begin + 7, message.find('\n') - begin - 7);
}

TEST(OptionPrecision, Fp16HasADynamicScaleUnlessItIsFixed) {
    const Resolved dynamic = resolve_line(minimal("--fp16"));
    EXPECT_EQ(dynamic.model.params_dtype, ParamsDtype::fp16);
    EXPECT_EQ(dynamic.optimizer.fixed_loss_scale, 0);
    EXPECT_EQ(dynamic.optimizer.initial_loss_scale, 4294967296.0); // Megatron-LM's defaults
    EXPECT_EQ(dynamic.optimizer.min_loss_scale, 1);
    EXPECT_EQ(dynamic.optimizer.loss_scale_window, 1000);
    EXPECT_EQ(dynamic.optimizer.loss_scale_hysteresis, 2);
    EXPECT_EQ(resolve_line(minimal("--params-dtype fp16 --loss-scale 128")).optimizer.fixed_loss_scale, 128);
}

TEST(OptionPrecision, Refusals) {
    EXPECT_EQ(message_of(minimal("--fp16 --bf16")), "trireme: error: weights have one type\n"
                                                    "  --bf16 (command line), --fp16 (command line)\n"
                                                    "  try: leave out one of the two\n");
    EXPECT_EQ(what(minimal("--fp16 --params-dtype fp32")), "--fp16 means --params-dtype fp16, not fp32");
    EXPECT_EQ(what(minimal("--bf16 --loss-scale 2")), "--loss-scale does nothing without --fp16");
    EXPECT_EQ(what(minimal("--hysteresis 2")), "--hysteresis does nothing without --fp16");
    EXPECT_EQ(what(minimal("--fp16 --loss-scale 2 --loss-scale-window 5")),
              "--loss-scale-window does nothing beside a fixed --loss-scale");
    EXPECT_EQ(message_of(minimal("--fp16 --initial-loss-scale 8 --min-loss-scale 16")),
              "trireme: error: the lowest scale of the loss 16 is above the first 8\n"
              "  --min-loss-scale 16 (command line), --initial-loss-scale 8 (command line)\n"
              "  try: --min-loss-scale 8\n");
    EXPECT_EQ(what(minimal("--fp16 --loss-scale 0")), "--loss-scale takes a number above 0, not '0'");
}

TEST(OptionOverlap, GathersNeedWhatTheyGather) {
    const Resolved all =
        resolve_line(minimal("--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather"), 2);
    EXPECT_TRUE(all.layout.overlap_grad_reduce && all.layout.overlap_param_gather && all.notes.empty());
    EXPECT_EQ(message_of(minimal("--overlap-param-gather --overlap-grad-reduce"), 2),
              "trireme: error: --overlap-param-gather gathers what --use-distributed-optimizer has cut\n"
              "  --overlap-param-gather (command line), --use-distributed-optimizer (not given)\n"
              "  try: give --use-distributed-optimizer, or leave out --overlap-param-gather\n");
    EXPECT_EQ(what(minimal("--overlap-param-gather --use-distributed-optimizer"), 2),
              "--overlap-param-gather goes with --overlap-grad-reduce");
    EXPECT_EQ(resolve_line(minimal("--overlap-grad-reduce")).notes,
              std::vector<std::string>{"--overlap-grad-reduce changes nothing at DP 1"});
}

TEST(OptionBatches, RampUp) {
    const Resolved r =
        resolve_line(by_samples("--global-batch-size 16 --rampup-batch-size 4 4 30 --micro-batch-size 2"), 2);
    EXPECT_EQ(r.batch.schedule.steps(), BatchSchedule::ramp_up(4, 4, 30, 16).steps());
    EXPECT_EQ(r.batch.global_batch_size, 16);
    EXPECT_EQ(r.batch.num_microbatches, 4);
    // 3 x 4 + 1 x 8 to sample 20, 1 x 12 to 32, then 60 x 16 = 992; the next would go beyond 1000.
    EXPECT_EQ(r.training.train_iters, 3 + 1 + 1 + 60);
    EXPECT_EQ(r.training.train_samples, 992);

    EXPECT_EQ(
        message_of(by_samples("--global-batch-size 16 --rampup-batch-size 4 5 30")),
        "trireme: error: the batch cannot rise from 4 to 16 by 5 at a time: 12 is not a multiple of it\n"
        "  --rampup-batch-size 4 5 30 (command line), --global-batch-size 16 (command line)\n"
        "  try: an increment of 6, or another first batch\n");
    EXPECT_EQ(what(by_samples("--global-batch-size 16 --rampup-batch-size 32 4 30")),
              "the batch cannot rise from 32 to 16");
    EXPECT_EQ(what(by_samples("--global-batch-size 16 --rampup-batch-size 4 4")),
              "--rampup-batch-size takes three whole numbers: first batch, increment, samples");
    EXPECT_EQ(what(by_samples("--global-batch-size 16 --rampup-batch-size 4 x 30")),
              "--rampup-batch-size takes three whole numbers: first batch, increment, samples");
    EXPECT_EQ(what(by_samples("--rampup-batch-size 4 4 30")), "the batch that a ramp leads to is missing");
    EXPECT_EQ(what(by_samples("--global-batch-size 16 --rampup-batch-size 4 4 30 --micro-batch-size 4"), 2),
              "a global batch of 4 is not a multiple of 8 (micro-batch x DP)");
    EXPECT_EQ(what(minimal("--global-batch-size 16 --rampup-batch-size 4 4 30")),
              "a batch that is ramped up goes with a training counted in samples");
    EXPECT_EQ(what(by_samples(
                  "--global-batch-size 16 --rampup-batch-size 4 4 30 --gradient-accumulation-steps 16")),
              "a batch that grows is no fixed number of accumulation steps");
}

TEST(OptionBatches, Steps) {
    // Thresholds are tokens; sequences have 16.
    const Resolved r = resolve_line(by_samples("--step-batch-size-schedule 0:4 0.16K:8,1.6k:2"));
    EXPECT_EQ(r.batch.schedule.steps(), BatchSchedule::stepwise({{0, 4}, {10, 8}, {100, 2}}).steps());
    EXPECT_EQ(r.batch.global_batch_size, 2);
    EXPECT_EQ(resolve_line(minimal("--step-batch-size-schedule 0:4 160:8")).training.train_samples,
              3 * 4 + 7 * 8);

    EXPECT_EQ(what(by_samples("--step-batch-size-schedule 0:4 160")), "'160' is not TOKENS:SIZE");
    EXPECT_EQ(what(by_samples("--step-batch-size-schedule 0:4 -5:8")), "'-5:8' is not TOKENS:SIZE");
    EXPECT_EQ(what(by_samples("--step-batch-size-schedule 0:0")), "'0:0' is not TOKENS:SIZE");
    EXPECT_EQ(what(by_samples("--step-batch-size-schedule 160:4")),
              "the first batch must be from 0 tokens on, not 160");
    EXPECT_EQ(what(by_samples("--step-batch-size-schedule 0:4 160:8 170:12")),
              "a batch from 170 tokens on does not follow one from 160 on by at least one sample of 16");
    EXPECT_EQ(what(by_samples("--step-batch-size-schedule 0:4 --global-batch-size 4")),
              "--step-batch-size-schedule says all global batches");
    EXPECT_EQ(what(by_samples("--step-batch-size-schedule 0:4 --rampup-batch-size 1 1 1")),
              "the batch grows in one way");
    EXPECT_EQ(what(by_samples("--step-batch-size-schedule 0:4 160:6"), 4),
              "a global batch of 6 is not a multiple of 4 (micro-batch x DP)");
}

TEST(OptionRates, WarmupStableDecay) {
    const Resolved r =
        resolve_line(minimal("--global-batch-size 4 --lr-decay-style WSD --lr-wsd-decay-iters 3 "
                             "--lr-wsd-decay-style minus_sqrt --lr-warmup-iters 2 "
                             "--lr-warmup-init 0.0001"));
    EXPECT_EQ(r.optimizer.lr_decay_style, LrDecayStyle::wsd);
    EXPECT_EQ(r.optimizer.wsd_decay_style, WsdDecayStyle::minus_sqrt);
    EXPECT_EQ(r.optimizer.wsd_decay_samples, 12);
    EXPECT_EQ(r.optimizer.lr_warmup_init, 0.0001);

    EXPECT_EQ(message_of(minimal("--lr-decay-style WSD")),
              "trireme: error: WSD needs the length of its fall\n"
              "  --lr-decay-style WSD (command line), --lr-wsd-decay-iters (not given)\n"
              "  try: --lr-wsd-decay-iters 1\n");
    EXPECT_EQ(what(minimal("--lr-wsd-decay-iters 3")),
              "--lr-wsd-decay-iters does nothing without --lr-decay-style WSD");
    EXPECT_EQ(what(minimal("--lr-decay-style WSD --lr-wsd-decay-iters 9 --lr-warmup-iters 2")),
              "a fall of 9 iterations and a warm-up of 2 do not fit into a decay of 10");
    EXPECT_EQ(what(minimal("--lr-decay-style WSD --lr-wsd-decay-samples 9")),
              "iterations and samples cannot be mixed: training is counted in iterations");
    EXPECT_EQ(what(minimal("--lr-warmup-init 0.0001")), "--lr-warmup-init does nothing without a warm-up");
    EXPECT_EQ(what(minimal("--lr-warmup-init 0.1 --lr-warmup-iters 2")),
              "the warm-up starts at 0.1, above the highest rate 0.001");
}

TEST(OptionRates, WeightDecayThatRises) {
    const Resolved r = resolve_line(
        minimal("--weight-decay-incr-style cosine --start-weight-decay 0.1 --end-weight-decay 0.2"));
    EXPECT_EQ(r.optimizer.weight_decay_style, WeightDecayStyle::cosine);
    EXPECT_EQ(r.optimizer.start_weight_decay, 0.1);
    EXPECT_EQ(r.optimizer.end_weight_decay, 0.2);
    EXPECT_EQ(what(minimal("--weight-decay-incr-style linear --end-weight-decay 0.2")),
              "weight decay that rises needs its start and its end");
    EXPECT_EQ(what(minimal("--start-weight-decay 0.2")),
              "--start-weight-decay does nothing while weight decay is constant");
    EXPECT_EQ(
        what(minimal("--weight-decay-incr-style linear --start-weight-decay 0.3 --end-weight-decay 0.2")),
        "weight decay does not rise from 0.3 to 0.2");
    EXPECT_EQ(what(minimal("--weight-decay-incr-style linear --start-weight-decay 0.1 --end-weight-decay 0.2 "
                           "--weight-decay 0.1")),
              "--weight-decay does nothing while weight decay rises");
}

TEST(OptionRates, TheScheduleOnResuming) {
    EXPECT_EQ(resolve_line(minimal("")).optimizer.rates_from, RatesFrom::options);
    EXPECT_EQ(resolve_line(minimal("--load x --override-opt_param-scheduler")).optimizer.rates_from,
              RatesFrom::options);
    for (const char* name : {"--use-checkpoint-opt_param-scheduler", "--use-checkpoint-opt-param-scheduler"})
        EXPECT_EQ(resolve_line(minimal(concat("--load x ", name))).optimizer.rates_from,
                  RatesFrom::checkpoint);
    EXPECT_EQ(what(minimal("--load x --override-opt-param-scheduler --use-checkpoint-opt-param-scheduler")),
              "on resuming, the rates follow the options or the checkpoint");
    EXPECT_EQ(what(minimal("--use-checkpoint-opt_param-scheduler")),
              "--use-checkpoint-opt_param-scheduler does nothing without --load");
}

} // namespace
} // namespace trireme::options
