// Tables and sentences of `trireme plan`.
#include "trireme/plan/report.hpp"

#include <algorithm>
#include <numeric>

#include "trireme/base/error.hpp"
#include "trireme/base/sizes.hpp"
#include "trireme/plan/screen.hpp"

namespace trireme::plan {
namespace {

using memory::Category;

constexpr double kGib = 1024.0 * 1024 * 1024;

std::string padded(const std::string& text, std::size_t width) {
    return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

std::string gib(std::int64_t bytes) {
    return fixed(static_cast<double>(bytes) / kGib, 2);
}

// Neighbouring stages that take the same, at most `most` of them: the first two, the fullest, the last two.
struct Column {
    std::size_t first, last;
};
std::vector<Column> columns_of(const std::vector<StageMemory>& stages) {
    constexpr std::size_t kMost = 6;
    std::vector<Column> columns;
    for (std::size_t s = 0; s < stages.size(); ++s)
        if (!columns.empty() && stages[columns.back().first].bytes == stages[s].bytes)
            columns.back().last = s;
        else
            columns.push_back({s, s});
    if (columns.size() <= kMost)
        return columns;
    const std::size_t full = fullest(stages), count = columns.size();
    std::vector<Column> shown;
    for (std::size_t i = 0; i < count; ++i)
        if (i < 2 || i + 2 >= count || (columns[i].first <= full && full <= columns[i].last))
            shown.push_back(columns[i]);
    return shown;
}

std::string memory_table(const std::vector<StageMemory>& stages, const Machine* machine) {
    constexpr std::size_t kName = 20, kWidth = 12;
    const std::vector<Column> columns = columns_of(stages);
    std::string text;
    const auto line = [&](const char* title, const std::string& name, auto&& cell) {
        std::string words = name + std::string(kName - std::min(kName, name.size()), ' ');
        for (const Column& column : columns)
            words += padded(cell(column), kWidth);
        text += screen_row(title, words);
    };
    line("memory", "GiB a rank", [](const Column& c) {
        return c.first == c.last ? concat("stage ", c.first) : concat("stages ", c.first, "-", c.last);
    });
    for (std::size_t i = 0; i < memory::kCategories; ++i)
        if (std::ranges::any_of(stages, [&](const StageMemory& stage) { return stage.bytes[i] > 0; }))
            line("", concat("  ", memory::name(static_cast<Category>(i))),
                 [&](const Column& c) { return gib(stages[c.first].bytes[i]); });
    line("", "planned", [&](const Column& c) { return gib(stages[c.first].total); });
    if (machine == nullptr)
        return text;
    line("", "allowance", [&](const Column&) { return fixed(machine->allowance_gib, 2); });
    line("", concat("left of ", fixed(machine->memory_gib, 1)), [&](const Column& c) {
        return fixed(static_cast<double>(room_bytes(*machine) - stages[c.first].total) / kGib, 2);
    });
    return text +
           screen_row("",
                      "allowance: for CUDA's context, its libraries' kernels and NCCL, which no plan counts");
}

// What weights, gradients and optimizer take for each parameter of a rank.
std::string bytes_a_parameter(const RunSetup& setup) {
    const bool mixed = setup.type != statistics_type(setup.type);
    const auto weight = static_cast<double>(size_bytes(setup.type)),
               main = static_cast<double>(size_bytes(statistics_type(setup.type)));
    const bool sharded = setup.optimizer.sharding == optimizer::Sharding::data_ranks && setup.grid.data > 1;
    const double master = setup.type == DType::bf16 ? main - weight : mixed ? main : 0;
    const double state = 2 * main + master, kept = sharded ? state / setup.grid.data : state;
    const auto number = [](double value) { return fixed(value, value == static_cast<int>(value) ? 0 : 2); };
    std::string text =
        concat(number(weight + main + kept), " bytes a parameter: ", name(setup.type), " weights ",
               number(weight), ", ", name(statistics_type(setup.type)), " main gradients ", number(main),
               ", ", mixed ? "master weights and moments " : "moments ", number(state));
    if (sharded)
        text += concat(" over DP ", setup.grid.data, " = ", number(kept));
    if (setup.type == DType::bf16 && !sharded)
        text += "; often 18: of fp32 master weights only what bf16 weights lack is kept";
    if (!mixed && setup.type == DType::f32)
        text += "; --bf16 takes 16 (weights 2, main gradients 4, state 10)";
    return text;
}

// The options that make a category smaller.
std::string cure(Category category) {
    switch (category) {
    case Category::weights:
    case Category::gradients:
        return "a larger --tensor-model-parallel-size or --pipeline-model-parallel-size";
    case Category::optimizer:
        return "--use-distributed-optimizer with more data ranks, or more tensor or pipeline ranks";
    case Category::activations:
        return "a smaller --micro-batch-size, --sequence-parallel, --recompute-activations, or "
               "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1";
    case Category::logits:
        return "a smaller --micro-batch-size or a larger --tensor-model-parallel-size";
    case Category::buffers:
    case Category::workspace:
        return "a smaller --micro-batch-size";
    case Category::communication:
        return "fewer groups of ranks";
    }
    return "";
}

// The three largest categories and their cures.
void append_largest(std::vector<std::string>& details,
                    const std::array<std::int64_t, memory::kCategories>& bytes) {
    std::array<std::size_t, memory::kCategories> order{};
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, std::greater{}, [&](std::size_t i) { return bytes[i]; });
    details.emplace_back("largest, and what makes it smaller:");
    for (std::size_t i = 0; i < 3 && bytes[order[i]] > 0; ++i)
        details.push_back(concat("  ", memory::name(static_cast<Category>(order[i])), " ",
                                 show_bytes(bytes[order[i]]), ": ", cure(static_cast<Category>(order[i]))));
}

std::array<std::int64_t, memory::kCategories> by_category(const memory::Plan& plan) {
    std::array<std::int64_t, memory::kCategories> bytes{};
    for (const memory::Plan::Entry& entry : plan.entries())
        bytes[static_cast<std::size_t>(entry.category)] += entry.bytes;
    return bytes;
}

} // namespace

void require_room(const memory::Plan& plan, std::int64_t taken_bytes, std::int64_t available_bytes,
                  const std::string& who) {
    if (plan.bytes() - taken_bytes <= available_bytes)
        return;
    std::vector<std::string> details{concat("planned: ", show_bytes(plan.bytes()),
                                            ", taken so far: ", show_bytes(taken_bytes),
                                            ", free: ", show_bytes(available_bytes))};
    append_largest(details, by_category(plan));
    details.emplace_back("try: trireme plan with the same options and --search GPUS --machine NAME");
    throw Error(ErrorCategory::device, concat(who, " needs more memory than its device has left"), details);
}

StageMemory declare_stage(const RunSetup& setup, int stage, const DeviceKind& on,
                          const topology::Schedule& schedule) {
    const DeclaredRank rank(setup, {0, 0, stage}, on, schedule);
    StageMemory memory;
    memory.bytes = by_category(rank.plan);
    memory.total = rank.plan.bytes();
    for (const model::HeldParameter& held : rank.parts.parameters.held())
        memory.stage_parameters += held.parameter.elements();
    memory.rank_parameters = rank.parts.parameters.local_elements();
    return memory;
}

std::vector<StageMemory> declare_stages(const RunSetup& setup, const DeviceKind& on) {
    const topology::Schedule schedule = schedule_of(setup);
    std::vector<StageMemory> stages;
    for (int stage = 0; stage < setup.grid.pipeline; ++stage)
        stages.push_back(declare_stage(setup, stage, on, schedule));
    return stages;
}

std::size_t fullest(const std::vector<StageMemory>& stages) {
    return static_cast<std::size_t>(
        std::ranges::max_element(stages, {}, [](const StageMemory& stage) { return stage.total; }) -
        stages.begin());
}

std::int64_t room_bytes(const Machine& machine) {
    return static_cast<std::int64_t>((machine.memory_gib - machine.allowance_gib) * kGib);
}

void require_room(const RunSetup& setup, const std::vector<StageMemory>& stages, const Machine& machine) {
    const std::size_t worst = fullest(stages);
    const StageMemory& stage = stages[worst];
    if (stage.total <= room_bytes(machine))
        return;
    std::vector<std::string> details{concat("a rank of stage ", worst, " needs ", show_bytes(stage.total),
                                            "; ", machine.name, " has ", fixed(machine.memory_gib, 1),
                                            " GiB less an allowance of ", fixed(machine.allowance_gib, 1))};
    append_largest(details, stage.bytes);
    details.push_back(concat("try: trireme plan --search ", setup.grid.ranks(), " --machine ", machine.name,
                             " with the same model"));
    throw Error(ErrorCategory::device, concat(setup.grid.text(), " does not fit ", machine.name), details);
}

std::string describe_plan(const RunSetup& setup, const std::vector<StageMemory>& stages,
                          const Machine* machine) {
    const auto most = [&](auto member) {
        return static_cast<double>(std::ranges::max(stages, {}, member).*member);
    };
    const int ranks = setup.grid.ranks();
    return screen_row("layout", concat(ranks, ranks == 1 ? " rank: " : " ranks: ",
                                       layout_words(setup, schedule_of(setup)))) +
           model_row(setup, placement_of(setup)) +
           parameters_row(setup, most(&StageMemory::stage_parameters), most(&StageMemory::rank_parameters)) +
           memory_table(stages, machine) + screen_row("", bytes_a_parameter(setup));
}

std::string describe_budget(const RunSetup& setup, const Prediction& prediction, std::int64_t steps) {
    const double hours = prediction.seconds * static_cast<double>(steps) / 3600;
    const double tokens = static_cast<double>(steps * setup.global_batch * setup.model.sequence);
    const auto shown = [](double count) { return fixed(count, count < 100 ? 1 : 0); };
    return screen_row("budget",
                      concat(steps, " steps, ", show_count(tokens), " tokens: ", shown(hours), " h on ",
                             setup.grid.ranks(), setup.grid.ranks() == 1 ? " GPU, " : " GPUs, ",
                             shown(hours * setup.grid.ranks()),
                             " GPU hours, without evaluation, checkpoints and restarts"));
}

std::string describe_time(const RunSetup& setup, const Machine& machine, const Prediction& prediction) {
    const int gpus = setup.grid.ranks();
    const double tflops = prediction.tflops(prediction.model_flops, gpus);
    std::string text = screen_row(
        "time",
        concat(
            fixed(prediction.seconds, prediction.seconds < 10 ? 3 : 1), " s a step of ", setup.global_batch,
            " x ", setup.model.sequence, " tokens on ", machine.name, ", predicted: ",
            fixed(prediction.tokens_per_second_per_gpu, prediction.tokens_per_second_per_gpu < 1000 ? 1 : 0),
            " tokens/s a GPU, ", show_count(prediction.tokens_per_second_per_gpu * gpus), " in all"));
    text += screen_row(
        "", concat(fixed(tflops, 1), " TFLOP/s a GPU (MFU ", fixed(100 * tflops / machine.peak_tflops, 1),
                   " % of ", fixed(machine.peak_tflops, 1), "); attention counted in full ",
                   fixed(prediction.tflops(prediction.full_attention_flops, gpus), 1), "; executed ",
                   fixed(prediction.tflops(prediction.hardware_flops, gpus), 1), " (HFU ",
                   fixed(100 * prediction.tflops(prediction.hardware_flops, gpus) / machine.peak_tflops, 1),
                   " %)"));
    std::string parts;
    const auto part = [&](const char* name, double seconds) {
        if (seconds > 0.0005 * prediction.seconds)
            parts += concat(parts.empty() ? "" : ", ", name, " ",
                            fixed(100 * seconds / prediction.seconds, 1), " %");
    };
    part("matrix products", prediction.computing.matmul);
    part("attention", prediction.computing.attention);
    part("memory-bound", prediction.computing.memory);
    part("tensor communication", prediction.computing.tensor);
    part("pipeline waiting", prediction.waiting);
    part("gradient reduction", prediction.reduction);
    part("parameter gathering", prediction.gather);
    part("optimizer", prediction.optimizer);
    text += screen_row("", setup.grid.pipeline > 1
                               ? concat("stage ", prediction.stage, ", which computes longest: ", parts)
                               : parts);
    if (setup.grid.pipeline > 1)
        text += screen_row(
            "", concat("pipeline bubble with these times ", fixed(100 * prediction.bubble, 1), " %"));
    return text;
}

} // namespace trireme::plan
