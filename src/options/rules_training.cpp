// Rules of required options, batches and the length of training.
#include <vector>

#include "options/batch_schedule.hpp"
#include "options/checker.hpp"
#include "options/convert.hpp"
#include "options/table.hpp"
#include "options/tokenizer_files.hpp"
#include "trireme/base/error.hpp"

namespace trireme::options {
namespace {

// Options that a command cannot do without. A checkpoint brings the model's along for evaluate and generate.
std::vector<std::string_view> required_options(Command command, const Values& values) {
    if (command == Command::checkpoint_export_hf)
        return {"load"};
    if (command == Command::checkpoint_import_hf)
        return {"save"};
    if (!kEveryRun.has(command))
        return {};
    std::vector<std::string_view> names{"num-layers", "hidden-size", "num-attention-heads", "seq-length",
                                        "max-position-embeddings"};
    if (command == Command::plan) // a vocabulary is all it needs of a tokenizer, and finds it
        return names;
    names.push_back("tokenizer-type");
    const auto add = [&](std::vector<std::string_view> more) {
        names.insert(names.end(), more.begin(), more.end());
    };
    add(files_of_tokenizer(values.tokenizer_type.value_or("GPT2BPETokenizer")));
    switch (command) {
    case Command::pretrain:
        add({"micro-batch-size", "lr",
             values.valid_data_path.empty() && values.test_data_path.empty() && values.train_data_path.empty()
                 ? "data-path"
                 : "train-data-path"});
        break;
    case Command::evaluate:
        add({"load"});
        if (values.valid_data_path.empty() && values.test_data_path.empty())
            add({"data-path"});
        break;
    case Command::generate:
        add({"load", "prompt"});
        break;
    default: // preflight has rules of its own (resolve_preflight.cpp)
        break;
    }
    return names;
}

std::int64_t data_parallel(const Checker& check) {
    return check.env.ranks /
           (check.values.tensor_model_parallel_size * check.values.pipeline_model_parallel_size);
}

} // namespace

void check_required(Checker& check) {
    if (check.unread)
        return;
    std::vector<std::string> missing;
    std::vector<std::string> details;
    const auto require = [&](std::string_view name) {
        const Row& row = *find_row(name);
        if (!texts_of(row, check.values).empty() || !check.sound({name}))
            return;
        missing.push_back(concat("--", name));
        details.push_back(concat("--", name, " ", row.placeholder, ": ", row.help));
    };
    for (const std::string_view name : required_options(check.command, check.values))
        require(name);
    if (check.command == Command::pretrain && !check.values.train_samples && check.sound({"train-samples"}))
        require("train-iters");
    if (missing.empty())
        return;
    details.push_back(concat("try: give them on the command line or in a file with --config FILE; trireme ",
                             name_of(check.command), " --help shows all"));
    check.complain_missing(concat(join(missing, ", "), missing.size() == 1 ? " is missing" : " are missing"),
                           std::move(details));
}

namespace {

// Batches that grow. The global batch size is the last of them; each is a multiple of micro-batch x DP.
void check_batch_schedule(Checker& check, std::int64_t one_pass) {
    Values& v = check.values;
    constexpr std::string_view kRamp = "rampup-batch-size", kSteps = "step-batch-size-schedule",
                               kGlobal = "global-batch-size", kAccumulation = "gradient-accumulation-steps";
    const bool ramp = !v.rampup_batch_size.empty(), steps = !v.step_batch_size_schedule.empty();
    if (check.command != Command::pretrain || (!ramp && !steps) || !check.sound({kRamp, kSteps, kGlobal}))
        return;
    const std::string_view name = ramp ? kRamp : kSteps;
    const auto refuse = [&](std::string what, std::initializer_list<std::string_view> names,
                            std::string attempt) {
        check.complain(std::move(what), names, std::move(attempt));
        check.spoil(name);
        check.spoil(kGlobal);
    };
    if (ramp && steps)
        return refuse("the batch grows in one way", {kRamp, kSteps}, "leave out one of the two");
    if (v.gradient_accumulation_steps)
        return refuse("a batch that grows is no fixed number of accumulation steps", {name, kAccumulation},
                      "leave out --gradient-accumulation-steps");
    if (ramp && !v.global_batch_size)
        return refuse("the batch that a ramp leads to is missing", {kRamp, kGlobal}, "--global-batch-size N");
    if (steps && v.global_batch_size)
        return refuse("--step-batch-size-schedule says all global batches", {kSteps, kGlobal},
                      "leave out --global-batch-size");
    const BatchScheduleText read = read_batch_schedule(v);
    if (!read.wrong.empty())
        return ramp ? refuse(read.wrong, {kRamp, kGlobal}, read.cure)
                    : refuse(read.wrong, {kSteps}, read.cure);
    if (!read.schedule)
        return;
    for (const std::int64_t size : read.schedule->sizes())
        if (size % one_pass != 0) {
            check.complain_about_ranks(
                concat("a global batch of ", size, " is not a multiple of ", one_pass, " (micro-batch x DP)"),
                {name, "micro-batch-size"}, concat("multiples of ", one_pass));
            check.spoil(name);
            return check.spoil(kGlobal);
        }
    if (steps)
        check.derive(kGlobal, v.global_batch_size, read.schedule->last());
}

} // namespace

void check_batch(Checker& check) {
    Values& v = check.values;
    if (!check.sound({"micro-batch-size", "global-batch-size", "gradient-accumulation-steps",
                      "tensor-model-parallel-size", "pipeline-model-parallel-size"}))
        return;
    const std::int64_t dp = data_parallel(check);
    if (check.command ==
        Command::generate) { // one prompt on every copy, whatever a shared file says of batches
        check.derive("micro-batch-size", v.micro_batch_size, 1);
        check.derive("global-batch-size", v.global_batch_size, dp);
        return;
    }
    if ((check.command == Command::evaluate || check.command == Command::plan) && !v.micro_batch_size)
        check.derive("micro-batch-size", v.micro_batch_size, 1);
    if (!v.micro_batch_size)
        return;
    const auto refuse_batch = [&](std::string what, std::initializer_list<std::string_view> names,
                                  std::string attempt) {
        check.complain_about_ranks(std::move(what), names, std::move(attempt));
        check.spoil("global-batch-size");
    };
    const bool trains = check.command == Command::pretrain || check.command == Command::plan;
    const bool accumulates = trains && v.gradient_accumulation_steps.has_value();
    const std::int64_t micro = *v.micro_batch_size;
    const std::int64_t steps = accumulates ? *v.gradient_accumulation_steps : 1;
    if (micro > kMostSamples / dp / steps)
        return refuse_batch("the global batch is beyond counting",
                            {"micro-batch-size", "gradient-accumulation-steps"}, "");
    const std::string shares = concat("micro-batch ", micro, " x DP ", dp);
    const std::int64_t one_pass = micro * dp;
    check_batch_schedule(check, one_pass);
    if (!check.sound({"global-batch-size"}))
        return;
    if (!v.global_batch_size)
        check.derive("global-batch-size", v.global_batch_size, one_pass * steps);
    const std::int64_t global = *v.global_batch_size;
    if (accumulates && global != one_pass * steps)
        return refuse_batch(concat("global batch ", global, " is not ", shares, " x ", steps,
                                   " accumulation steps = ", one_pass * steps),
                            {"global-batch-size", "micro-batch-size", "gradient-accumulation-steps"},
                            concat("--global-batch-size ", one_pass * steps,
                                   global % one_pass == 0
                                       ? concat(", or --gradient-accumulation-steps ", global / one_pass)
                                       : "",
                                   ", or leave out one of the two"));
    if (global % one_pass != 0) {
        const std::int64_t lower = global / one_pass * one_pass;
        return refuse_batch(
            concat("global batch ", global, " is not a multiple of ", one_pass, " (", shares, ")"),
            {"global-batch-size", "micro-batch-size"},
            concat("--global-batch-size ", lower > 0 ? concat(lower, " or ") : "", lower + one_pass));
    }
    if (check.command == Command::pretrain && !accumulates)
        check.derive("gradient-accumulation-steps", v.gradient_accumulation_steps, global / one_pass);
}

void check_length(Checker& check) {
    Values& v = check.values;
    const bool trains = check.command == Command::pretrain || check.command == Command::plan;
    if (!trains || !check.sound({"train-iters", "train-samples"}))
        return;
    if (check.given("train-iters") && check.given("train-samples")) {
        check.complain("training has one length: iterations or samples", {"train-iters", "train-samples"},
                       "leave out one of the two");
        return check.spoil("train-iters");
    }
    if (!check.sound({"global-batch-size", "micro-batch-size"}) || !v.global_batch_size)
        return;
    const std::int64_t global = *v.global_batch_size;
    if (!v.rampup_batch_size.empty() && check.sound({"rampup-batch-size"}) && !check.given("train-samples")) {
        check.complain("a batch that is ramped up goes with a training counted in samples",
                       {"rampup-batch-size", "train-iters"}, "--train-samples N in place of --train-iters");
        return check.spoil("train-iters");
    }
    const topology::BatchSchedule batches =
        read_batch_schedule(v).schedule.value_or(topology::BatchSchedule::constant(global));
    const std::int64_t largest = batches.sizes().back();
    if (v.train_iters && *v.train_iters > kMostSamples / largest) {
        check.complain("the length of training is beyond counting", {"train-iters", "global-batch-size"});
        return check.spoil("train-iters");
    }
    if (!v.train_iters && v.train_samples) {
        if (*v.train_samples < batches.at(0))
            return check.complain(
                concat(*v.train_samples, " samples do not make one global batch of ", batches.at(0)),
                {"train-samples", "global-batch-size"});
        check.derive("train-iters", v.train_iters, batches.iterations_within(*v.train_samples));
    }
}

} // namespace trireme::options
