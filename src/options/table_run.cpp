// Options of the log, evaluation, checkpoints, the machine and generation, and those of every program.
#include "options/table.hpp"

namespace trireme::options {
namespace {

constexpr double kYearMinutes = 366.0 * 24 * 60;

std::vector<Row> log_rows() {
    return {
        {.name = "log-interval",
         .placeholder = "N",
         .field = &Values::log_interval,
         .by_default = "100",
         .range = at_least(1),
         .help = "steps between two lines of the log",
         .commands = kOnlyPretrain},
        {.name = "timing-log-level",
         .placeholder = "N",
         .field = &Values::timing_log_level,
         .by_default = "0",
         .range = Range{.at_least = 0, .above = {}, .at_most = 2, .below = {}},
         .help = "with each line what a step's time goes to: 1 by kind of work, 2 by phase; 0: no",
         .commands = kOnlyPretrain},
        {.name = "log-gpu",
         .field = &Values::log_gpu,
         .help = "with each line memory in use, utilisation, clock, power and temperature of the GPUs (NVML)",
         .commands = kOnlyPretrain,
         .arity = Arity::flag},
        {.name = "profile",
         .placeholder = "STEPS",
         .field = &Values::profile,
         .range = at_least(1),
         .help = "write a Chrome trace of so many steps of all ranks, after the first two, beside --save",
         .commands = kOnlyPretrain},
        {.name = "eval-interval",
         .placeholder = "N",
         .field = &Values::eval_interval,
         .range = at_least(1),
         .help = "steps between two evaluations; none if not given",
         .commands = kOnlyPretrain},
        {.name = "eval-iters",
         .placeholder = "N",
         .field = &Values::eval_iters,
         .by_default = "100",
         .range = at_least(0),
         .help = "global batches of one evaluation; 0: no evaluation"},
    };
}

std::vector<Row> checkpoint_rows() {
    return {
        {.name = "save",
         .placeholder = "DIR",
         .field = &Values::save,
         .help = "directory of checkpoints and metrics.jsonl",
         .commands = kOnlyPretrain | kOnlyImport,
         .content = Content::path},
        {.name = "save-interval",
         .placeholder = "N",
         .field = &Values::save_interval,
         .range = at_least(1),
         .help = "steps between two checkpoints; always one at the end",
         .commands = kOnlyPretrain},
        {.name = "load",
         .placeholder = "DIR",
         .field = &Values::load,
         .help = "resume from the latest checkpoint in DIR, saved on any layout; none there: start fresh",
         .commands = kEveryRun | kOnlyExport,
         .content = Content::path},
        {.name = "exit-on-missing-checkpoint",
         .field = &Values::exit_on_missing_checkpoint,
         .help = "an error instead of a fresh start when load finds nothing",
         .commands = kOnlyPretrain},
        {.name = "finetune",
         .field = &Values::finetune,
         .help = "take the weights of load only and start at step 0",
         .commands = kOnlyPretrain},
        {.name = "no-load-optim",
         .field = &Values::no_load_optim,
         .help = "leave the optimizer state of load aside",
         .commands = kOnlyPretrain},
        {.name = "no-load-rng",
         .field = &Values::no_load_rng,
         .help = "leave the random state of load aside",
         .commands = kOnlyPretrain},
        {.name = "no-save-optim",
         .field = &Values::no_save_optim,
         .help = "checkpoints without optimizer state (smaller; resumes with fresh moments)",
         .commands = kOnlyPretrain},
        {.name = "save-retain",
         .placeholder = "N",
         .field = &Values::save_retain,
         .by_default = "5",
         .range = at_least(0),
         .help =
             "the last N checkpoints stay, older ones are deleted once a new one is published; 0: all stay",
         .commands = kOnlyPretrain},
        {.name = "save-retain-interval",
         .placeholder = "N",
         .field = &Values::save_retain_interval,
         .range = at_least(1),
         .help = "checkpoints of multiples of N stay for ever; a multiple of save-interval",
         .commands = kOnlyPretrain},
        {.name = "no-save-on-exit",
         .field = &Values::no_save_on_exit,
         .help = "no checkpoint when the run ends between two of save-interval",
         .commands = kOnlyPretrain},
        {.name = "no-verify-save",
         .field = &Values::no_verify_save,
         .help = "do not read a checkpoint again before it is published",
         .commands = kOnlyPretrain},
        {.name = "exit-on-save-failure",
         .field = &Values::exit_on_save_failure,
         .help = "end the run when a checkpoint cannot be saved, instead of saying so and going on",
         .commands = kOnlyPretrain},
        {.name = "async-save",
         .field = &Values::async_save,
         .help = "write checkpoints while training goes on: it waits only for a copy to host memory",
         .commands = kOnlyPretrain},
        {.name = "save-buffer-mb",
         .placeholder = "N",
         .field = &Values::save_buffer_mb,
         .range = at_least(1),
         .help = "host memory of a rank for async-save, in MiB; as much as its state takes if not given",
         .commands = kOnlyPretrain},
        {.name = "save-stripe-count",
         .placeholder = "N",
         .field = &Values::save_stripe_count,
         .by_default = "0",
         .range = Range{.at_least = -1, .above = {}, .at_most = 2000, .below = {}},
         .help = "on Lustre: storage targets that each file of a checkpoint is spread over; -1: all, 0: as "
                 "the file system is set",
         .commands = kOnlyPretrain},
        {.name = "save-stripe-size",
         .placeholder = "SIZE",
         .field = &Values::save_stripe_size,
         .help = "on Lustre: bytes on one target before the next one's turn, a multiple of 64K (suffixes K, "
                 "M, G of 1024, as lfs has them); as the file system is set if not given",
         .commands = kOnlyPretrain},
        {.name = "ckpt-step",
         .placeholder = "N",
         .field = &Values::ckpt_step,
         .range = at_least(0),
         .help = "load the checkpoint of iteration N instead of the latest",
         .commands = kEveryRun | kOnlyExport},
        {.name = "no-load-fallback",
         .field = &Values::no_load_fallback,
         .help = "a damaged checkpoint is an error instead of a warning and the newest earlier one that is "
                 "whole"},
        {.name = "use-checkpoint-args",
         .field = &Values::use_checkpoint_args,
         .help = "take the model's shape from the checkpoint in load, as evaluate and generate do; the "
                 "command line wins",
         .commands = kOnlyPretrain},
        {.name = "norms",
         .field = &Values::norms,
         .help = "also read the tensors: norm, smallest and largest value of each",
         .commands = Commands{Command::checkpoint_inspect}},
        {.name = "max-shard-size",
         .placeholder = "SIZE",
         .field = &Values::max_shard_size,
         .by_default = "5GB",
         .help = "largest piece of an exported model (MB, GB or MiB, GiB); a larger model gets several and "
                 "an index",
         .commands = kOnlyExport},
    };
}

std::vector<Row> machine_rows() {
    return {
        {.name = "device",
         .placeholder = "NAME",
         .field = &Values::device,
         .choices = {"cpu", "cuda"},
         .help = "cuda if the build has it, else cpu, if not given"},
        {.name = "no-deterministic",
         .field = &Values::no_deterministic,
         .help = "cuda: cuDNN's attention gradient adds in any order, a little faster; the bits of two runs "
                 "then differ",
         .commands = kOnlyPretrain},
        {.name = "threads-per-rank",
         .placeholder = "N",
         .field = &Values::threads_per_rank,
         .by_default = "0",
         .range = at_least(0),
         .help = "threads of the CPU operations; 0: cores of the node / ranks on it"},
        {.name = "distributed-timeout-minutes",
         .also_named = "timeout-minutes",
         .placeholder = "X",
         .field = &Values::distributed_timeout_minutes,
         .by_default = "10",
         .range = above_up_to(0, kYearMinutes),
         .help = "silence after which the watchdog names the rank that is behind and ends the run; one that "
                 "has died is missed sooner (docs/stopping.md)"},
    };
}

std::vector<Row> generation_rows() {
    return {
        {.name = "prompt", .placeholder = "TEXT", .field = &Values::prompt, .help = "text to continue"},
        {.name = "max-new-tokens",
         .placeholder = "N",
         .field = &Values::max_new_tokens,
         .by_default = "64",
         .range = at_least(1),
         .help = "tokens to write"},
        {.name = "temperature",
         .placeholder = "X",
         .field = &Values::temperature,
         .by_default = "1",
         .range = at_least(0),
         .help = "divides the logits; 0: always the most likely token"},
        {.name = "top-k",
         .placeholder = "N",
         .field = &Values::top_k,
         .by_default = "0",
         .range = at_least(0),
         .help = "choose among the K most likely tokens; 0: among all"},
    };
}

std::vector<Row> plan_rows() {
    return {
        {.name = "world-size",
         .placeholder = "N",
         .field = &Values::world_size,
         .range = at_least(1),
         .help = "ranks that the run would have; TP x PP if not given"},
        {.name = "machine",
         .placeholder = "NAME",
         .field = &Values::machine,
         .help = "predict times too: a100-80gb, h100, h200, or a file of rates",
         .content = Content::text},
        {.name = "draw",
         .placeholder = "FILE",
         .field = &Values::draw,
         .help = "write the pipeline's schedule as an SVG chart; with machine in its times",
         .content = Content::path},
        {.name = "search",
         .placeholder = "GPUS",
         .field = &Values::search,
         .range = at_least(1),
         .help = "try every layout of GPUS that fits memory and rank them by predicted tokens per second; "
                 "needs machine"},
        {.name = "search-max-tensor-parallel",
         .placeholder = "N",
         .field = &Values::search_max_tensor_parallel,
         .range = at_least(1),
         .help = "largest TP that search tries; the GPUs of a node if not given"},
    };
}

std::vector<Row> preflight_rows() {
    return {
        {.name = "expect",
         .placeholder = "FILE",
         .field = &Values::expect,
         .help =
             "lines `name = number` that measured figures are held against (docs/preflight.md has the names)",
         .content = Content::path},
        {.name = "json", .field = &Values::json, .help = "the report as one JSON object instead of tables"},
    };
}

std::vector<Row> general_rows() {
    return {
        {.name = "config",
         .placeholder = "FILE",
         .help = "read options from FILE: name = value, # comments; the command line wins",
         .content = Content::path},
        {.name = "help", .help = "show this text", .arity = Arity::flag},
    };
}

} // namespace

void add_run_rows(std::vector<Row>& rows) {
    append(rows, Group::log, kWithData, log_rows());
    append(rows, Group::checkpoint, kEveryRun, checkpoint_rows());
    append(rows, Group::machine, kEveryRun, machine_rows());
    append(rows, Group::generation, kOnlyGenerate, generation_rows());
    append(rows, Group::plan, kOnlyPlan, plan_rows());
    append(rows, Group::preflight, kOnlyPreflight, preflight_rows());
    append(rows, Group::general, kEveryCommand, general_rows());
}

} // namespace trireme::options
