// Options of the log, evaluation, checkpoints, the machine and generation, and those of every program.
#include "options/table.hpp"

namespace trireme::options {
namespace {

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
         .range = Range{.at_least = 0, .at_most = 2},
         .help = "with each line what a step's time goes to: 1 by kind of work, 2 by phase; 0: no",
         .commands = kOnlyPretrain},
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
         .commands = kOnlyPretrain,
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
    };
}

std::vector<Row> machine_rows() {
    return {
        {.name = "device",
         .placeholder = "NAME",
         .field = &Values::device,
         .choices = {"cpu", "cuda"},
         .help = "cuda if the build has it, else cpu, if not given"},
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
         .range = above(0),
         .help = "silence after which the watchdog names the rank that is behind and ends the run"},
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
    append(rows, Group::checkpoint, kEveryCommand, checkpoint_rows());
    append(rows, Group::machine, kEveryCommand, machine_rows());
    append(rows, Group::generation, kOnlyGenerate, generation_rows());
    append(rows, Group::general, kEveryCommand, general_rows());
}

} // namespace trireme::options
