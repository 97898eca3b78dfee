// The tables, and the choices that they leave open.
#include "support/published_runs.hpp"

#include <algorithm>

#include "trireme/catalogue/catalogue.hpp"
#include "trireme/plan/declared_rank.hpp"

namespace trireme::test {
namespace {

struct Row {
    const char* name;
    std::int64_t heads, hidden, layers;
    int tensor, pipeline, ranks;
    std::int64_t global_batch;
    double tflops;
    std::int64_t micro_batch; // 0: not published
    std::int64_t chunk;       // layers of a chunk; 0: one chunk
};

constexpr Row kNarayanan[] = {
    {"1.7B", 24, 2304, 24, 1, 1, 32, 512, 137, 16, 0},
    {"3.6B", 32, 3072, 30, 2, 1, 64, 512, 138, 16, 0},
    {"7.5B", 32, 4096, 36, 4, 1, 128, 512, 142, 16, 0},
    {"18.4B", 48, 6144, 40, 8, 1, 256, 1024, 135, 8, 0},
    {"39.1B", 64, 8192, 48, 8, 2, 512, 1536, 138, 4, 0},
    {"76.1B", 80, 10240, 60, 8, 4, 1024, 1792, 140, 2, 5},
    {"145.6B", 96, 12288, 80, 8, 8, 1536, 2304, 148, 2, 5},
    {"310.1B", 128, 16384, 96, 8, 16, 1920, 2160, 155, 1, 3},
    {"529.6B", 128, 20480, 105, 8, 35, 2520, 2520, 163, 1, 1},
    {"1008.0B", 160, 25600, 128, 8, 64, 3072, 3072, 163, 1, 0},
};

constexpr Row kH100[] = {
    {"1.7B", 16, 2048, 24, 1, 1, 48, 192, 408.8, 0, 0},
    {"7.1B", 32, 4096, 30, 2, 1, 96, 192, 465.9, 0, 0},
    {"16B", 48, 6144, 32, 4, 1, 192, 192, 489.1, 0, 0},
    {"32B", 56, 7168, 48, 8, 1, 384, 192, 459.6, 0, 0},
    {"70B", 64, 8192, 84, 8, 2, 768, 384, 419.7, 0, 0},
    {"119B", 80, 10240, 92, 8, 4, 1536, 768, 420.5, 0, 0},
    {"177B", 96, 12288, 96, 8, 6, 2304, 1152, 432.8, 0, 0},
    {"314B", 128, 16384, 96, 8, 8, 3072, 1536, 474.4, 0, 0},
    {"462B", 144, 18432, 112, 8, 16, 6144, 3072, 459.9, 0, 0},
};

// Ours on H200s (docs/gpu-results.jsonl, commits ce3bf9a and 9df4754).
struct OwnRow {
    Row row;                  // its TFLOP/s follow from the tokens
    double tokens_per_second; // of all GPUs
    std::int64_t sequence;
    topology::ScheduleKind schedule = topology::ScheduleKind::one_f_one_b;
};
constexpr OwnRow kOwn[] = {
    {{"1.3B", 16, 2048, 24, 1, 1, 1, 8, 0, 8, 0}, 66819, 2048},
    {{"1.56B", 25, 1600, 48, 1, 1, 1, 16, 0, 16, 0}, 51897, 1024},
    {{"7B", 32, 4096, 32, 1, 1, 1, 8, 0, 4, 0}, 14451, 2048},
    {{"1.56B", 25, 1600, 48, 1, 1, 2, 32, 0, 16, 0}, 99690, 1024},
    {{"7B", 32, 4096, 32, 1, 1, 2, 14, 0, 7, 0}, 27714, 2048},
    {{"7B", 32, 4096, 32, 2, 1, 2, 12, 0, 12, 0}, 25845, 2048},
    {{"7B", 32, 4096, 32, 1, 2, 2, 64, 0, 4, 0}, 26214, 2048},
    {{"7B zb-h1", 32, 4096, 32, 1, 2, 2, 64, 0, 4, 0}, 27428, 2048, topology::ScheduleKind::zb_h1},
};

PublishedRun run_of(const Row& row, std::int64_t sequence, std::int64_t vocabulary) {
    PublishedRun run;
    run.name = row.name;
    run.tflops = row.tflops;
    plan::RunSetup& setup = run.setup;
    setup.model.layers = row.layers;
    setup.model.hidden = row.hidden;
    setup.model.heads = setup.model.groups = row.heads;
    setup.model.head_dim = row.hidden / row.heads;
    setup.model.ffn = 4 * row.hidden;
    setup.model.vocabulary = vocabulary;
    setup.model.max_positions = setup.model.sequence = sequence;
    setup.grid = {row.tensor, row.ranks / (row.tensor * row.pipeline), row.pipeline};
    setup.type = DType::bf16; // fp16 costs the same
    setup.global_batch = row.global_batch;
    setup.micro_batch = std::max<std::int64_t>(1, row.micro_batch);
    if (row.chunk > 0)
        setup.chunks = static_cast<int>(row.layers / row.pipeline / row.chunk);
    return run;
}

void interleave(plan::RunSetup& setup) {
    setup.schedule =
        setup.chunks > 1 ? topology::ScheduleKind::interleaved : topology::ScheduleKind::one_f_one_b;
}

// On the stages that can be fullest: the first two (most micro-batches in flight) and the last (logits).
bool fits(const plan::RunSetup& setup, const plan::Machine& machine) {
    const double room = (machine.memory_gib - machine.allowance_gib) * 1024 * 1024 * 1024;
    const topology::Schedule schedule = plan::schedule_of(setup);
    for (const int stage : {0, 1, setup.grid.pipeline - 1})
        if (stage<setup.grid.pipeline&& static_cast<double>(
                plan::DeclaredRank(setup, {0, 0, stage}, {backend::Device::cuda, 1}, schedule).plan.bytes())>
                room)
            return false;
    return true;
}

} // namespace

std::vector<PublishedRun> narayanan_2021() {
    std::vector<PublishedRun> runs;
    for (const Row& row : kNarayanan) {
        runs.push_back(run_of(row, 2048, 51200));
        runs.back().setup.recompute = {model::Recompute::Mode::uniform, 1};
        interleave(runs.back().setup);
    }
    return runs;
}

std::vector<PublishedRun> own_h200() {
    std::vector<PublishedRun> runs;
    for (const OwnRow& own : kOwn) {
        runs.push_back(run_of(own.row, own.sequence, 50257));
        plan::RunSetup& setup = runs.back().setup;
        setup.schedule = own.schedule;
        setup.model.hidden_dropout = setup.model.attention_dropout = 0;
        if (setup.grid.tensor > 1)
            setup.sequence_parallel = model::SequenceParallel::yes;
        if (setup.grid.data > 1) {
            setup.optimizer.sharding = optimizer::Sharding::data_ranks;
            setup.optimizer.overlap = optimizer::Overlap::reduction_and_gather;
        }
        runs.back().tflops = own.tokens_per_second *
                             catalogue::flops_per_token(setup.model, catalogue::AttentionFlops::causal) /
                             setup.grid.ranks() / 1e12;
    }
    return runs;
}

plan::Software software_of_2021() {
    plan::Software software;
    software.attention = plan::Software::Attention::stored;
    software.scatters_transfers = true;
    return software;
}

double paper_flops(const plan::RunSetup& setup) {
    const auto h = static_cast<double>(setup.model.hidden), l = static_cast<double>(setup.model.layers),
               s = static_cast<double>(setup.model.sequence), v = static_cast<double>(setup.model.vocabulary);
    return 96 * static_cast<double>(setup.global_batch) * s * l * h * h *
           (1 + s / (6 * h) + v / (16 * l * h));
}

std::vector<PublishedRun> megatron_h100() {
    std::vector<PublishedRun> runs;
    for (const Row& row : kH100) {
        runs.push_back(run_of(row, 4096, 131072));
        plan::RunSetup& setup = runs.back().setup;
        setup.sequence_parallel = model::SequenceParallel::yes;
        setup.optimizer.sharding = optimizer::Sharding::data_ranks;
        setup.model.hidden_dropout = setup.model.attention_dropout = 0;
    }
    return runs;
}

plan::Software software_of_2024() {
    plan::Software software;
    software.tensor_hidden = 0.5;
    software.overlaps_reduction = software.overlaps_gather = true;
    return software;
}

std::vector<Comparison> compare_narayanan_2021() {
    const plan::Machine machine = plan::find_machine("a100-80gb");
    std::vector<Comparison> comparisons;
    for (const PublishedRun& run : narayanan_2021()) {
        Comparison compared{run, plan::predict(run.setup, machine, software_of_2021())};
        compared.tflops = compared.prediction.tflops(paper_flops(run.setup), run.setup.grid.ranks());
        comparisons.push_back(std::move(compared));
    }
    return comparisons;
}

std::vector<Comparison> compare_own_h200() {
    const plan::Machine machine = plan::find_machine("h200");
    std::vector<Comparison> comparisons;
    for (const PublishedRun& run : own_h200()) {
        Comparison compared{run, plan::predict(run.setup, machine, plan::software_of(run.setup))};
        compared.tflops = compared.prediction.tflops(compared.prediction.model_flops, run.setup.grid.ranks());
        comparisons.push_back(std::move(compared));
    }
    return comparisons;
}

std::vector<Comparison> compare_megatron_h100() {
    const plan::Machine machine = plan::find_machine("h100");
    std::vector<Comparison> comparisons;
    for (const PublishedRun& run : megatron_h100()) {
        Comparison best{run, {}};
        for (const std::int64_t micro_batch : {1, 2, 4})
            for (const int chunks : {1, 2, 3, 4, 6, 7}) {
                PublishedRun choice = run;
                plan::RunSetup& setup = choice.setup;
                setup.micro_batch = micro_batch;
                setup.chunks = chunks;
                interleave(setup);
                const bool divides = setup.model.layers % (setup.grid.pipeline * chunks) == 0 &&
                                     setup.global_batch % (micro_batch * setup.grid.data) == 0;
                if (!divides || (chunks > 1 && setup.grid.pipeline == 1) || !fits(setup, machine))
                    continue;
                Comparison compared{choice, plan::predict(setup, machine, software_of_2024())};
                compared.tflops =
                    compared.prediction.tflops(compared.prediction.full_attention_flops, setup.grid.ranks());
                if (compared.tflops > best.tflops)
                    best = std::move(compared);
            }
        comparisons.push_back(std::move(best));
    }
    return comparisons;
}

} // namespace trireme::test
