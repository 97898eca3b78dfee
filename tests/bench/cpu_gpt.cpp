// CPU speed: the fastest training step of a GPT in fp32 on one rank, on random tokens, without dropout: the
// same work and the same measure as tests/bench/torch_cpu_gpt.py, which cpu_gpt_bench.sh times in the same
// run. One JSON object on standard output; "cpu" figures count the processor time of the process, which other
// work on the machine hardly changes. usage: cpu_gpt [LAYERS HIDDEN HEADS SEQUENCE VOCABULARY MICRO_BATCH
// STEPS THREADS]
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <iostream>

#include "support/tiny_model.hpp"
#include "trireme/catalogue/catalogue.hpp"

int main(int argc, char** argv) {
    using namespace trireme;
    std::array<std::int64_t, 8> values{6, 384, 6, 256, 8192, 8, 10, 2};
    for (int i = 1; i < argc && i <= 8; ++i)
        values[static_cast<std::size_t>(i - 1)] = std::atoll(argv[i]);
    const auto [layers, hidden, heads, sequence, vocabulary, micro_batch, steps, threads] = values;

    train::EngineSetup setup;
    setup.model.layers = layers;
    setup.model.hidden = hidden;
    setup.model.heads = setup.model.groups = heads;
    setup.model.head_dim = hidden / heads;
    setup.model.ffn = 4 * hidden;
    setup.model.vocabulary = vocabulary;
    setup.model.max_positions = setup.model.sequence = sequence;
    setup.model.hidden_dropout = setup.model.attention_dropout = 0;
    setup.micro_batch = setup.global_batch = micro_batch;

    const auto backend = backend::make_cpu_backend(static_cast<int>(threads));
    const auto alone = comm::make_self_host_group();
    train::Engine engine(setup, comm::ProcessGroups::alone(*alone), *backend);
    engine.initialise_weights();
    test::SyntheticBatches batches(setup, 0);
    std::vector<double> seconds, cpu_seconds;
    double loss = 0;
    for (std::int64_t step = 0; step < steps; ++step) {
        const auto start = std::chrono::steady_clock::now();
        const std::clock_t cpu_start = std::clock(); // of all threads of the process
        batches.start_step(step * setup.global_batch);
        loss = engine.train_step(batches, 1e-4).loss;
        cpu_seconds.push_back(static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC);
        seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::sort(seconds.begin(), seconds.end());
    std::sort(cpu_seconds.begin(), cpu_seconds.end());
    const double best = seconds.front(), median = seconds[seconds.size() / 2];
    const double tokens = static_cast<double>(micro_batch * sequence);
    const double flops = tokens * catalogue::flops_per_token(setup.model, catalogue::AttentionFlops::causal);
    std::cout << "{\"program\": \"trireme\", \"backend\": \"" << backend->description()
              << "\", \"tokens_per_second\": " << tokens / best
              << ", \"tokens_per_cpu_second\": " << tokens / cpu_seconds.front()
              << ", \"threads\": " << threads << ", \"best_step_seconds\": " << best
              << ", \"median_step_seconds\": " << median
              << ", \"cpu_seconds_a_step\": " << cpu_seconds.front()
              << ", \"gflop_per_second\": " << flops / best / 1e9 << ", \"loss\": " << loss << "}"
              << std::endl;
    return 0;
}
