// From options to the planner: the vocabulary, the setup of the run, the machine.
#include "trireme/train/plan_command.hpp"

#include <filesystem>
#include <optional>

#include "configure.hpp"
#include "first_screen.hpp"
#include "trireme/base/file.hpp"
#include "trireme/plan/balance.hpp"
#include "trireme/plan/report.hpp"
#include "trireme/plan/screen.hpp"
#include "trireme/plan/search.hpp"

namespace trireme::train {
namespace {

// A plan needs of a tokenizer only how large its vocabulary is.
std::int64_t vocabulary_size(const options::Resolved& options, std::vector<std::string>& notes) {
    constexpr std::int64_t kGpt2 = 50257;
    const options::Resolved::Data& data = options.data;
    std::error_code ignored;
    const auto exists = [&](const std::string& file) {
        return !file.empty() && std::filesystem::exists(file, ignored);
    };
    if (data.tokenizer_type != options::TokenizerType::null && data.vocab_size > 0)
        return data.vocab_size;
    switch (data.tokenizer_type) {
    case options::TokenizerType::gpt2_bpe:
        if (exists(data.vocab_file) && exists(data.merge_file))
            return make_tokenizer(options)->vocab_size();
        notes.push_back(concat("vocabulary ", kGpt2, ", GPT-2's: give --vocab-size for another"));
        return kGpt2;
    case options::TokenizerType::hf_file:
        if (exists(data.tokenizer_model))
            return make_tokenizer(options)->vocab_size();
        break;
    case options::TokenizerType::null:
        if (data.vocab_size > 0)
            return make_tokenizer(options)->vocab_size();
        break;
    }
    throw Error(ErrorCategory::usage, "the size of the vocabulary is not known",
                {"--tokenizer-model names no file and --vocab-size is not given", "try: --vocab-size N"});
}

void draw(const EngineSetup& setup, const plan::Prediction* prediction, const std::string& file) {
    std::string chart;
    if (prediction != nullptr) {
        chart = topology::draw_svg(prediction->schedule, prediction->timeline);
    } else {
        const topology::Schedule schedule = plan::schedule_of(setup);
        chart = topology::draw_svg(schedule, topology::simulate(schedule, plan::relative_costs(setup)));
    }
    publish_file(file, chart);
}

} // namespace

int plan(const options::Resolved& options, void (*say)(const std::string&)) {
    std::vector<std::string> notes = options.notes;
    const EngineSetup setup = engine_setup(options, vocabulary_size(options, notes), Purpose::train);
    std::string text = version_line();
    for (const std::string& note : notes)
        text += plan::screen_row("note", note);
    std::optional<plan::Machine> machine;
    if (!options.plan.machine.empty())
        machine = plan::find_machine(options.plan.machine);
    const plan::Software software = plan::software_of(setup);
    if (options.plan.search > 0) {
        for (const char* const name :
             {"pipeline-model-parallel-layout", "decoder-first-pipeline-num-layers",
              "decoder-last-pipeline-num-layers", "account-for-embedding-in-pipeline-split",
              "account-for-loss-in-pipeline-split", "recompute-modules"})
            if (options.sources.given(name))
                text += plan::screen_row(
                    "note", concat("--", name,
                                   " is left aside: --search spreads layers evenly, and its selective "
                                   "recompute is that of core_attn"));
        plan::SearchSetup search;
        search.gpus = static_cast<int>(options.plan.search);
        search.most_tensor = options.plan.search_max_tensor_parallel > 0
                                 ? static_cast<int>(options.plan.search_max_tensor_parallel)
                                 : static_cast<int>(machine->gpus_per_node);
        say(text + plan::describe_search(plan::search(setup, search, *machine, software), search, *machine));
        return 0;
    }
    const bool on_gpu = machine || options.machine.device == options::Device::cuda;
    const plan::DeviceKind on{on_gpu ? backend::Device::cuda : backend::Device::cpu,
                              static_cast<int>(options.machine.threads_per_rank)};
    const std::vector<plan::StageMemory> stages = plan::declare_stages(setup, on);
    text += plan::describe_plan(setup, stages, machine ? &*machine : nullptr);
    std::optional<plan::Prediction> prediction;
    if (machine) {
        prediction = plan::predict(setup, *machine, software);
        text += plan::describe_time(setup, *machine, *prediction);
        if (options.training.train_iters > 0)
            text += plan::describe_budget(setup, *prediction, options.training.train_iters);
    }
    if (!options.plan.draw.empty()) {
        draw(setup, prediction ? &*prediction : nullptr, options.plan.draw);
        text += plan::screen_row("chart", options.plan.draw);
    }
    say(text);
    if (machine)
        plan::require_room(setup, stages, *machine);
    return 0;
}

} // namespace trireme::train
