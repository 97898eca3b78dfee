// Rules of required options, batches, the length of training and the learning rate. Lengths are kept in
// samples, as Megatron-LM does: iterations times the global batch.
#include <vector>

#include "options/checker.hpp"
#include "options/convert.hpp"
#include "options/table.hpp"
#include "options/tokenizer_files.hpp"
#include "trireme/base/error.hpp"

namespace trireme::options {
namespace {

constexpr std::int64_t kMostSamples = std::int64_t{1}
                                      << 53; // products below stay exact, in int64 and in double

// Options that a command cannot do without. A checkpoint brings the model's along for evaluate and generate.
std::vector<std::string_view> required_options(Command command, const Values& values) {
    if (command == Command::checkpoint_export_hf)
        return {"load"};
    if (command == Command::checkpoint_import_hf)
        return {"save"};
    if (!kEveryRun.has(command))
        return {};
    std::vector<std::string_view> names{
        "num-layers",    "hidden-size", "num-attention-heads", "seq-length", "max-position-embeddings",
        "tokenizer-type"};
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
    default:
        break;
    }
    return names;
}

std::int64_t data_parallel(const Checker& check) {
    return check.env.ranks /
           (check.values.tensor_model_parallel_size * check.values.pipeline_model_parallel_size);
}

// A length given in iterations or in samples: the two may not be mixed with the way training itself is
// counted.
void check_not_mixed(Checker& check) {
    const bool by_samples = check.given("train-samples");
    for (const std::string_view length : {"lr-decay", "lr-warmup"}) {
        const std::string wrong = concat(length, by_samples ? "-iters" : "-samples");
        const std::string right = concat(length, by_samples ? "-samples" : "-iters");
        const std::string_view counted = by_samples ? "train-samples" : "train-iters";
        if (!check.given(wrong) || !check.given(counted) || !check.sound({wrong, counted}))
            continue;
        check.complain(concat("iterations and samples cannot be mixed: training is counted in ",
                              by_samples ? "samples" : "iterations"),
                       {wrong, counted}, concat("--", right));
        check.spoil(wrong);
    }
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
    if (check.command == Command::evaluate && !v.micro_batch_size)
        check.derive("micro-batch-size", v.micro_batch_size, 1);
    if (!v.micro_batch_size)
        return;
    const auto refuse_batch = [&](std::string what, std::initializer_list<std::string_view> names,
                                  std::string attempt) {
        check.complain_about_ranks(std::move(what), names, std::move(attempt));
        check.spoil("global-batch-size");
    };
    const bool accumulates = check.command == Command::pretrain && v.gradient_accumulation_steps.has_value();
    const std::int64_t micro = *v.micro_batch_size;
    const std::int64_t steps = accumulates ? *v.gradient_accumulation_steps : 1;
    if (micro > kMostSamples / dp / steps)
        return refuse_batch("the global batch is beyond counting",
                            {"micro-batch-size", "gradient-accumulation-steps"}, "");
    const std::string shares = concat("micro-batch ", micro, " x DP ", dp);
    const std::int64_t one_pass = micro * dp;
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
    if (check.command != Command::pretrain || !check.sound({"train-iters", "train-samples"}))
        return;
    if (check.given("train-iters") && check.given("train-samples")) {
        check.complain("training has one length: iterations or samples", {"train-iters", "train-samples"},
                       "leave out one of the two");
        return check.spoil("train-iters");
    }
    check_not_mixed(check);
    if (!check.sound({"global-batch-size", "micro-batch-size"}) || !v.global_batch_size)
        return;
    const std::int64_t global = *v.global_batch_size;
    if (v.train_iters && *v.train_iters > kMostSamples / global) {
        check.complain("the length of training is beyond counting", {"train-iters", "global-batch-size"});
        return check.spoil("train-iters");
    }
    if (!v.train_iters && v.train_samples) {
        if (*v.train_samples < global)
            return check.complain(
                concat(*v.train_samples, " samples do not make one global batch of ", global),
                {"train-samples", "global-batch-size"});
        check.derive("train-iters", v.train_iters, *v.train_samples / global);
    }
}

void check_learning_rate(Checker& check) {
    Values& v = check.values;
    if (check.command != Command::pretrain)
        return;
    if (v.lr && check.sound({"lr", "min-lr"}) && v.min_lr > *v.lr)
        check.complain(
            concat("the lowest learning rate ", show(v.min_lr), " is above the highest ", show(*v.lr)),
            {"min-lr", "lr"}, concat("--min-lr ", show(*v.lr / 10)));

    std::vector<std::string_view> warmups;
    for (const std::string_view name : {"lr-warmup-fraction", "lr-warmup-iters", "lr-warmup-samples"})
        if (check.given(name))
            warmups.push_back(name);
    if (!check.sound({"lr-warmup-fraction", "lr-warmup-iters", "lr-warmup-samples", "lr-decay-iters",
                      "lr-decay-samples"}))
        return;
    if (warmups.size() > 1)
        return check.complain("the warm-up has one length", {warmups[0], warmups[1]},
                              "leave out one of the two");

    if (!v.train_iters || !v.global_batch_size ||
        !check.sound({"train-iters", "train-samples", "global-batch-size"}))
        return;
    const bool by_samples = check.given("train-samples");
    const std::int64_t unit = by_samples ? 1 : *v.global_batch_size;
    auto& decay = by_samples ? v.lr_decay_samples : v.lr_decay_iters;
    auto& warmup = by_samples ? v.lr_warmup_samples : v.lr_warmup_iters;
    const std::string_view decay_name = by_samples ? "lr-decay-samples" : "lr-decay-iters";
    const std::string_view warmup_name = by_samples ? "lr-warmup-samples" : "lr-warmup-iters";
    if (!decay)
        check.derive(decay_name, decay, by_samples ? *v.train_samples : *v.train_iters);
    if (*decay > kMostSamples / unit)
        return check.complain("the length of the decay is beyond counting",
                              {decay_name, "global-batch-size"});
    if (warmup && *warmup >= *decay)
        check.complain(concat("a warm-up of ", *warmup, " is not shorter than the decay of ", *decay,
                              by_samples ? " samples" : " iterations"),
                       {warmup_name, decay_name}, concat("--", warmup_name, " ", *decay / 100));
}

} // namespace trireme::options
