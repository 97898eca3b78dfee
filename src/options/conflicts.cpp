// One example for each rule between options; a test holds that each is one mistake and names the options.
#include "options/conflicts.hpp"

#include <sstream>

#include "trireme/base/error.hpp"
#include "trireme/options/resolve.hpp"

namespace trireme::options {
namespace {

constexpr std::string_view kNeeded =
    "--num-layers 4 --hidden-size 8 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 "
    "--micro-batch-size 1 --lr 0.001 --data-path corpus --tokenizer-type NullTokenizer --vocab-size 99";
constexpr std::string_view kSamples = "--train-samples 1000";

} // namespace

const std::vector<Conflict>& conflicts() {
    static const std::vector<Conflict> all{
        // layout
        {"--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2", 6},
        {"--tensor-model-parallel-size 3 --ffn-hidden-size 33", 3},
        {"--tensor-model-parallel-size 2 --ffn-hidden-size 33", 2},
        {"--tensor-model-parallel-size 2 --sequence-parallel --seq-length 15", 2},
        {"--pipeline-model-parallel-size 8", 8},
        {"--num-layers-per-virtual-pipeline-stage 1"},
        {"--num-layers-per-virtual-pipeline-stage 3 --pipeline-model-parallel-size 2", 2},
        {"--num-layers-per-virtual-pipeline-stage 1 --pipeline-model-parallel-size 2 --pipeline-schedule "
         "gpipe",
         2},
        {"--num-layers-per-virtual-pipeline-stage 1 --num-virtual-stages-per-pipeline-rank 2 "
         "--pipeline-model-parallel-size 2",
         2},
        {"--num-virtual-stages-per-pipeline-rank 2"},
        {"--num-virtual-stages-per-pipeline-rank 2 --pipeline-model-parallel-size 2 --pipeline-schedule "
         "zb-h1",
         2},
        {"--num-virtual-stages-per-pipeline-rank 3 --pipeline-model-parallel-size 2", 2},
        {"--decoder-first-pipeline-num-layers 1"},
        {"--decoder-first-pipeline-num-layers 1 --pipeline-model-parallel-size 3", 3},
        {"--decoder-first-pipeline-num-layers 4 --pipeline-model-parallel-size 2", 2},
        {"--decoder-first-pipeline-num-layers 2 --decoder-last-pipeline-num-layers 1 "
         "--pipeline-model-parallel-size 2",
         2},
        {"--decoder-last-pipeline-num-layers 1 --num-virtual-stages-per-pipeline-rank 2 "
         "--pipeline-model-parallel-size 2",
         2},
        {"--decoder-last-pipeline-num-layers 2 --num-layers-per-virtual-pipeline-stage 1 "
         "--pipeline-model-parallel-size 2",
         2},
        {"--account-for-embedding-in-pipeline-split --pipeline-model-parallel-size 2", 2},
        {"--account-for-embedding-in-pipeline-split --decoder-last-pipeline-num-layers 2 "
         "--pipeline-model-parallel-size 2",
         2},
        {"--account-for-loss-in-pipeline-split --decoder-first-pipeline-num-layers 2 "
         "--pipeline-model-parallel-size 2",
         2},
        {"--pipeline-model-parallel-layout Ett|tt --pipeline-model-parallel-size 2", 2},
        {"--pipeline-model-parallel-layout Ett|t|tL --pipeline-model-parallel-size 2", 2},
        {"--pipeline-model-parallel-layout Ett|tL --pipeline-model-parallel-size 2", 2},
        {"--pipeline-model-parallel-layout Ett|||ttL --pipeline-model-parallel-size 4", 4},
        {"--pipeline-model-parallel-layout auto --pipeline-model-parallel-size 7", 7},
        {"--pipeline-model-parallel-layout auto --decoder-first-pipeline-num-layers 1 "
         "--pipeline-model-parallel-size 2",
         2},
        {"--pipeline-model-parallel-layout auto --account-for-loss-in-pipeline-split "
         "--pipeline-model-parallel-size 2",
         2},
        {"--pipeline-model-parallel-layout auto --num-layers-per-virtual-pipeline-stage 1 "
         "--pipeline-model-parallel-size 2",
         2},
        {"--pipeline-model-parallel-layout Ett|ttL --num-virtual-stages-per-pipeline-rank 1 "
         "--pipeline-model-parallel-size 2",
         2},
        {"--overlap-param-gather --overlap-grad-reduce", 2},
        {"--overlap-param-gather --use-distributed-optimizer", 2},
        // model
        {"--hidden-size 10"},
        {"--seq-length 32"},
        {"--use-rotary-position-embeddings --position-embedding-type none"},
        {"--no-position-embedding"},
        {"--rotary-base 500000"},
        {"--rotary-percent 0.5"},
        {"--use-rope-scaling"},
        {"--reset-position-ids --position-embedding-type none"},
        {"--position-embedding-type rope --rope-scaling-factor 4"},
        {"--position-embedding-type rope --kv-channels 3"},
        {"--num-query-groups 2"},
        {"--group-query-attention --num-query-groups 3"},
        {"--num-attention-heads 12 --kv-channels 2 --group-query-attention --num-query-groups 6 "
         "--tensor-model-parallel-size 4",
         4},
        {"--bf16 --fp16"},
        {"--bf16 --params-dtype fp32"},
        {"--fp16 --params-dtype bf16"},
        // device
        {"--log-gpu --device cpu"},
        {"--no-deterministic --device cpu"},
        // recompute
        {"--recompute-activations --recompute-granularity full"},
        {"--recompute-granularity full"},
        {"--recompute-granularity full --recompute-method block"},
        {"--recompute-granularity selective --recompute-num-layers 1"},
        {"--recompute-modules mlp"},
        {"--recompute-modules mlp --recompute-granularity full --recompute-method block "
         "--recompute-num-layers 1"},
        {"--recompute-activations --pipeline-schedule zb-h1"},
        // batches
        {"--global-batch-size 3", 2},
        {"--global-batch-size 4 --gradient-accumulation-steps 2"},
        {"--rampup-batch-size 2 2 100", 1, kSamples},
        {"--rampup-batch-size 2 2 100 --global-batch-size 8"},
        {"--rampup-batch-size 2 3 100 --global-batch-size 9", 1, kSamples},
        {"--rampup-batch-size 9 1 100 --global-batch-size 8", 1, kSamples},
        {"--rampup-batch-size 2 2 100 --global-batch-size 8", 4, kSamples},
        {"--rampup-batch-size 2 2 100 --global-batch-size 8 --gradient-accumulation-steps 8", 1, kSamples},
        {"--rampup-batch-size 2 2 100 --step-batch-size-schedule 0:2", 1, kSamples},
        {"--step-batch-size-schedule 0:2 --global-batch-size 4"},
        {"--step-batch-size-schedule 0:2 --gradient-accumulation-steps 2"},
        {"--step-batch-size-schedule 0:2 10:4 20:6"},
        // length and rates
        {"--train-samples 100"},
        {"--lr-decay-samples 100"},
        {"--lr-warmup-iters 1", 1, kSamples},
        {"--lr-wsd-decay-samples 10 --lr-decay-style WSD --lr-wsd-decay-iters 1"},
        {"--lr-warmup-iters 1 --lr-warmup-fraction 0.1"},
        {"--lr-warmup-iters 10"},
        {"--lr-warmup-init 0.0001"},
        {"--lr-warmup-init 0.01 --lr-warmup-iters 1"},
        {"--min-lr 0.01"},
        {"--lr-decay-style WSD"},
        {"--lr-wsd-decay-iters 3"},
        {"--lr-wsd-decay-style linear"},
        {"--lr-decay-style WSD --lr-wsd-decay-iters 9 --lr-warmup-iters 2"},
        {"--load DIR --override-opt_param-scheduler --use-checkpoint-opt_param-scheduler"},
        {"--start-weight-decay 0.1"},
        {"--weight-decay-incr-style linear --end-weight-decay 0.1"},
        {"--weight-decay-incr-style linear --start-weight-decay 0.2 --end-weight-decay 0.1"},
        {"--weight-decay-incr-style linear --start-weight-decay 0 --end-weight-decay 0.1 --weight-decay 0.1"},
        // loss scale
        {"--loss-scale 1024"},
        {"--bf16 --hysteresis 1"},
        {"--fp16 --loss-scale 1024 --min-loss-scale 1"},
        {"--fp16 --min-loss-scale 2 --initial-loss-scale 1"},
        // data
        {"--vocab-file vocab.json"},
        {"--train-data-path corpus"},
        // evaluation, checkpoints, checks
        {"--eval-iters 10"},
        {"--save-interval 10"},
        {"--no-save-optim"},
        {"--save checkpoints --save-stripe-size 100K"},
        {"--finetune"},
        {"--no-load-optim"},
        {"--use-checkpoint-opt_param-scheduler"},
        {"--check-for-nan-in-loss-and-grad --no-check-for-nan-in-loss-and-grad"},
    };
    return all;
}

std::string message_of(const Conflict& conflict) {
    std::istringstream in(concat(kNeeded, " ", conflict.length, " ", conflict.arguments));
    std::vector<std::string> arguments;
    for (std::string word; in >> word;)
        arguments.push_back(word);
    try {
        resolve(parse(Command::pretrain, arguments), {.ranks = conflict.ranks});
    } catch (const Error& error) {
        return error.message();
    }
    return "";
}

} // namespace trireme::options
