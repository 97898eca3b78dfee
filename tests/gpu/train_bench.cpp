// Training speed on one GPU: tokens/s of steps of a GPT in bf16 with fp32 master weights, on random tokens
// without dropout, as shared peers are timed. One JSON object on standard output. usage: train_bench [LAYERS
// HIDDEN HEADS SEQUENCE MICRO_BATCH ACCUMULATED STEPS DEVICE TUNED]   (DEVICE: cuda or cpu; cpu in fp32)
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "support/tiny_model.hpp"
#include "trireme/base/sizes.hpp"
#include "trireme/catalogue/catalogue.hpp"

namespace {

// All micro-batches of the run, made before it: a loader's workers would have them ready too.
class Prepared : public trireme::pipeline::BatchSource {
  public:
    Prepared(const trireme::train::EngineSetup& setup, std::int64_t steps)
        : setup_(setup), sizes_(setup.model.sequence * setup.micro_batch) {
        trireme::test::SyntheticBatches source(setup, 0);
        for (std::int64_t step = 0; step < steps; ++step) {
            source.start_step(step * setup.global_batch);
            for (std::int64_t i = 0; i < setup.micro_batches(); ++i) {
                const trireme::model::MicroBatch batch = source.load(i);
                for (const trireme::Tensor& tensor : {batch.tokens, batch.targets}) {
                    const auto values = tensor.values<std::int32_t>();
                    values_.insert(values_.end(), values.begin(), values.end());
                }
            }
        }
    }
    void start_step(std::int64_t step) { step_ = step; }
    std::int64_t first_sample(std::int64_t number) const override {
        return step_ * setup_.global_batch + number * setup_.micro_batch;
    }
    trireme::model::MicroBatch load(std::int64_t number) override {
        std::int32_t* const tokens = values_.data() + (step_ * setup_.micro_batches() + number) * 2 * sizes_;
        trireme::model::MicroBatch batch;
        batch.number = number;
        batch.first_sample = first_sample(number);
        batch.tokens =
            trireme::Tensor(tokens, {setup_.model.sequence, setup_.micro_batch}, trireme::DType::i32);
        batch.targets = trireme::Tensor(tokens + sizes_, {sizes_}, trireme::DType::i32);
        return batch;
    }

  private:
    trireme::train::EngineSetup setup_;
    std::int64_t sizes_, step_ = 0;
    std::vector<std::int32_t> values_; // of each micro-batch: tokens, targets
};

int measure(int argc, char** argv) {
    using namespace trireme;
    std::array<std::int64_t, 7> values{12, 768, 12, 1024, 64, 1, 25};
    for (int i = 1; i < argc && i <= 7; ++i)
        values[static_cast<std::size_t>(i - 1)] = std::atoll(argv[i]);
    const auto [layers, hidden, heads, sequence, micro_batch, accumulated, steps] = values;
    const bool on_cpu = argc > 8 && std::strcmp(argv[8], "cpu") == 0;

    train::EngineSetup setup;
    setup.model.layers = layers;
    setup.model.hidden = hidden;
    setup.model.heads = setup.model.groups = heads;
    setup.model.head_dim = hidden / heads;
    setup.model.ffn = 4 * hidden;
    setup.model.vocabulary = 50257;
    setup.model.max_positions = setup.model.sequence = sequence;
    setup.model.hidden_dropout = setup.model.attention_dropout = 0;
    setup.type = on_cpu ? DType::f32 : DType::bf16;
    setup.micro_batch = micro_batch;
    setup.global_batch = micro_batch * accumulated;

    const auto backend = backend::make_backend(
        {.device = on_cpu ? backend::Device::cpu : backend::Device::cuda, .threads = 16});
    std::cerr << backend->description() << std::endl;
    const auto alone = comm::make_self_host_group();
    train::Engine engine(setup, comm::ProcessGroups::alone(*alone), *backend);
    std::cerr << "planned " << show_bytes(engine.plan().bytes()) << std::endl;
    engine.initialise_weights();
    if (argc > 9)
        engine.tune();
    Prepared batches(setup, steps);
    std::vector<double> seconds, losses;
    std::int64_t allocations = 0;
    for (std::int64_t step = 0; step < steps; ++step) {
        const auto start = std::chrono::steady_clock::now();
        batches.start_step(step);
        losses.push_back(engine.train_step(batches, 1e-4).loss);
        backend->synchronize(backend::StreamRole::compute);
        seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        if (step == 1)
            allocations = backend->allocations();
    }
    std::vector<double> timed(seconds.begin() + std::min<std::ptrdiff_t>(5, steps - 1), seconds.end());
    std::sort(timed.begin(), timed.end());
    const double median = timed[timed.size() / 2],
                 tokens = static_cast<double>(setup.global_batch * sequence);
    const double flops = catalogue::flops_per_token(setup.model, catalogue::AttentionFlops::full);
    std::cout << "{\"layers\": " << layers << ", \"hidden\": " << hidden << ", \"heads\": " << heads
              << ", \"sequence\": " << sequence << ", \"micro batch\": " << micro_batch
              << ", \"accumulated\": " << accumulated << ", \"step ms\": " << 1e3 * median
              << ", \"tokens per second\": " << tokens / median
              << ", \"TFLOP/s\": " << tokens / median * flops / 1e12
              << ", \"allocated GiB\": " << static_cast<double>(backend->allocated_bytes()) / (1 << 30)
              << ", \"allocations after the second step\": " << backend->allocations() - allocations
              << ", \"losses\": [";
    for (std::size_t i = 0; i < losses.size(); ++i)
        std::cout << (i == 0 ? "" : ", ") << losses[i];
    std::cout << "]}" << std::endl;
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    try {
        return measure(argc, argv);
    } catch (const trireme::Error& error) {
        std::cerr << error.message();
        return error.exit_code();
    }
}
