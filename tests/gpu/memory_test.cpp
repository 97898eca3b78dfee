// Memory of a training run on a GPU: what the plan says is what is taken, and once each kind of pass has been
// rehearsed nothing more is, by us or by the libraries.
#include "gpu/compare.hpp"
#include "support/tiny_model.hpp"
#include "trireme/comm/runtime.hpp"

namespace trireme::test {
namespace {

// 4 layers, hidden 256, sequence 256: large enough that kernels choose as in a real run.
train::EngineSetup gpt_setup() {
    train::EngineSetup setup = tiny_setup();
    setup.model.hidden = 256;
    setup.model.head_dim = 64;
    setup.model.ffn = 1024;
    setup.model.vocabulary = 1000;
    setup.model.max_positions = setup.model.sequence = 256;
    setup.model.init_std = 0.02;
    setup.type = DType::bf16;
    setup.micro_batch = 2;
    return setup;
}

train::EngineSetup qwen_setup() {
    train::EngineSetup setup = gpt_setup();
    setup.model.groups = 2;
    setup.model.positions = catalogue::Positions::rotary;
    setup.model.normalisation = catalogue::Normalisation::rms_norm;
    setup.model.activation = catalogue::Activation::swiglu;
    setup.model.output_layer = catalogue::OutputLayer::own;
    setup.model.biases = catalogue::Biases::query_key_value;
    setup.model.hidden_dropout = setup.model.attention_dropout = 0;
    return setup;
}

void expect_planned(const train::EngineSetup& setup) {
    // One of its own, since scratch stays with a backend for whoever comes next.
    const std::unique_ptr<backend::Backend> own = backend::make_backend({.device = backend::Device::cuda});
    const auto alone = comm::make_self_host_group();
    train::Engine engine(setup, comm::ProcessGroups::alone(*alone), *own);
    engine.initialise_weights();
    engine.tune();
    engine.rehearse(model::Mode::train);
    engine.rehearse(model::Mode::evaluate);
    const auto planned = static_cast<double>(engine.plan().bytes());
    // What users are promised; on CPU ranks it is to the byte, here cuDNN's workspace is foreseen by a
    // formula.
    EXPECT_NEAR(static_cast<double>(own->allocated_bytes()), planned, 0.01 * planned);

    SyntheticBatches batches(setup, 0);
    const std::int64_t calls = own->allocations();
    const std::optional<std::int64_t> left = own->available_bytes();
    ASSERT_TRUE(left.has_value());
    for (int i = 0; i < 3; ++i) {
        batches.start_step(i * setup.global_batch);
        engine.train_step(batches, 1e-3);
    }
    engine.evaluate(batches, 2);
    EXPECT_EQ(own->allocations(), calls);
    EXPECT_EQ(own->available_bytes(), left)
        << "something was taken in a step, or another program uses this GPU";
}

class GpuMemory : public testing::Test {
  protected:
    void SetUp() override {
        if (gpu() == nullptr)
            GTEST_SKIP() << "needs gpu: this machine has none, or the build has no CUDA";
    }
};

TEST_F(GpuMemory, IsTakenAsPlannedAndNotInAStep) {
    expect_planned(gpt_setup());
}

TEST_F(GpuMemory, IsTakenAsPlannedWithGroupedQueriesAndSwiglu) {
    expect_planned(qwen_setup());
}

TEST_F(GpuMemory, IsTakenAsPlannedWithRecomputation) {
    train::EngineSetup setup = gpt_setup();
    setup.recompute = {.mode = model::Recompute::Mode::uniform, .layers = 1};
    expect_planned(setup);
}

} // namespace
} // namespace trireme::test
