// Plans, binds and drives one model in one layout.
#include "trireme/train/engine.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "trireme/base/philox.hpp"
#include "trireme/comm/phase.hpp"

namespace trireme::train {
namespace {

model::StageSetup stage_setup(const EngineSetup& setup, const topology::Coordinates& at) {
    model::StageSetup stage;
    stage.config = setup.model;
    stage.grid = setup.grid;
    stage.at = at;
    stage.type = setup.type;
    stage.micro_batch = setup.micro_batch;
    stage.global_batch = setup.global_batch;
    stage.seed = setup.seed;
    stage.recompute = setup.recompute;
    stage.sequence_parallel = setup.sequence_parallel;
    return stage;
}

model::ParameterSetup parameter_setup(const EngineSetup& setup, const topology::Coordinates& at,
                                      const topology::Placement& placement) {
    model::ParameterSetup parameters;
    parameters.config = setup.model;
    parameters.grid = setup.grid;
    parameters.at = at;
    parameters.placement = placement;
    parameters.weight_type = setup.type;
    parameters.gradient_type = statistics_type(setup.type);
    return parameters;
}

optimizer::OptimizerSetup optimizer_setup(const EngineSetup& setup) {
    optimizer::OptimizerSetup result = setup.optimizer;
    const bool part = setup.sequence_parallel == model::SequenceParallel::yes && setup.grid.tensor > 1;
    result.seen = part ? optimizer::SeenSequence::part : optimizer::SeenSequence::whole;
    return result;
}

// Tokens for a step whose results are dropped.
class RandomBatches : public pipeline::BatchSource {
  public:
    RandomBatches(const EngineSetup& setup, int data_rank) : setup_(setup), data_rank_(data_rank) {
        tokens_.resize(static_cast<std::size_t>(setup.model.sequence * setup.micro_batch));
        for (std::size_t i = 0; i < tokens_.size(); ++i) {
            const PhiloxCounter words = philox4x32({static_cast<std::uint32_t>(i), 0, 0, 0}, {0, 0});
            tokens_[i] =
                static_cast<std::int32_t>(words[0] % static_cast<std::uint32_t>(setup.model.vocabulary));
        }
    }
    std::int64_t first_sample(std::int64_t number) const override {
        return (number * setup_.grid.data + data_rank_) * setup_.micro_batch;
    }
    model::MicroBatch load(std::int64_t number) override {
        model::MicroBatch batch;
        batch.number = number;
        batch.first_sample = first_sample(number);
        batch.tokens = Tensor(std::span(tokens_), Shape{setup_.model.sequence, setup_.micro_batch});
        batch.targets = Tensor(std::span(tokens_), Shape{setup_.model.sequence * setup_.micro_batch});
        return batch;
    }

  private:
    const EngineSetup& setup_;
    int data_rank_;
    std::vector<std::int32_t> tokens_;
};

class NoHooks : public model::StepHooks {
  public:
    void gradients_complete(int) override {}
};

topology::Schedule schedule_for(const EngineSetup& setup) {
    if (setup.purpose == Purpose::forward_only)
        return topology::make_forward_schedule(setup.grid.pipeline, 1, setup.chunks);
    return topology::make_schedule(setup.schedule, setup.grid.pipeline,
                                   static_cast<int>(setup.micro_batches()), setup.chunks);
}

} // namespace

struct Engine::Impl {
    EngineSetup setup;
    backend::Backend& backend;
    comm::ProcessGroups groups;
    topology::Placement placement;
    memory::Plan plan;
    model::Parameters parameters;
    pipeline::Executor executor;
    std::optional<optimizer::Optimizer> optimizer;
    std::optional<memory::Arena> arena;

    Impl(const EngineSetup& of, comm::ProcessGroups in, backend::Backend& on)
        : setup(of), backend(on), groups(std::move(in)),
          placement(topology::place_layers(of.model.layers, of.grid.pipeline, of.chunks)),
          parameters(parameter_setup(of, groups.at, placement), plan),
          executor(stage_setup(of, groups.at), placement, schedule_for(of), plan) {
        TRIREME_ASSERT(groups.grid == setup.grid, "groups of ", groups.grid.text(), " for ",
                       setup.grid.text());
        if (setup.purpose == Purpose::train)
            optimizer.emplace(optimizer_setup(setup), parameters, setup.grid, groups.at, plan);
        comm::agree(*groups.world, [&] { arena.emplace(plan, backend); });
        parameters.bind(*arena);
        executor.bind(*arena, parameters, {&backend, groups.tensor.get()}, *groups.pipeline);
        if (optimizer)
            optimizer->bind(*arena, backend, groups);
    }

    // Sum of the token losses of all data ranks, on every rank: each last stage's first tensor rank adds its
    // own, in rank order.
    double total_loss() {
        std::array<double, 1> sum{};
        if (executor.has_head() && groups.at.tensor == 0)
            sum[0] = read_scalar(executor.loss());
        groups.world->all_reduce(sum, comm::ReduceOp::sum);
        return sum[0];
    }

    double read_scalar(const Tensor& tensor) {
        const comm::DeviceWaitScope waiting;
        if (tensor.type() == DType::f64) {
            std::array<double, 1> value{};
            backend.copy_to_host(tensor, Tensor(std::span<double>(value), Shape{1}));
            return value[0];
        }
        std::array<float, 1> value{};
        backend.copy_to_host(tensor, Tensor(std::span<float>(value), Shape{1}));
        return value[0];
    }

    // Row `row` of the logits, as doubles; this rank's columns of the real vocabulary.
    std::vector<double> logits_row(std::int64_t row) {
        const model::Dimensions d = model::dimensions(stage_setup(setup, groups.at));
        const Tensor from = executor.logits().rows(row, 1).reshaped(Shape{d.V});
        std::vector<double> result(static_cast<std::size_t>(d.V));
        if (from.type() == DType::f64) {
            backend.copy_to_host(from, Tensor(std::span(result), Shape{d.V}));
        } else if (from.type() == DType::bf16) {
            std::vector<BFloat16> values(static_cast<std::size_t>(d.V));
            backend.copy_to_host(from, Tensor(std::span(values), Shape{d.V}));
            std::ranges::transform(values, result.begin(),
                                   [](BFloat16 value) { return static_cast<float>(value); });
        } else {
            std::vector<float> values(static_cast<std::size_t>(d.V));
            backend.copy_to_host(from, Tensor(std::span(values), Shape{d.V}));
            result.assign(values.begin(), values.end());
        }
        result.resize(static_cast<std::size_t>(d.valid_rows));
        return result;
    }
};

Engine::Engine(const EngineSetup& setup, comm::ProcessGroups groups, backend::Backend& backend)
    : impl_(std::make_unique<Impl>(setup, std::move(groups), backend)) {}
Engine::~Engine() = default;

void Engine::initialise_weights() {
    impl_->parameters.initialise(impl_->setup.seed, impl_->backend, impl_->setup.host_threads);
    if (impl_->optimizer)
        impl_->optimizer->copy_master_from_weights();
}

std::string Engine::tune(const std::string& known) {
    const comm::PhaseScope phase("timing of matrix products");
    Impl& in = *impl_;
    if (in.backend.device() == backend::Device::cpu)
        return {};
    comm::agree(*in.groups.world, [&] { in.backend.use_tuned(known); });
    RandomBatches batches(in.setup, in.groups.at.data);
    NoHooks hooks;
    in.backend.start_tuning();
    in.executor.train(batches, hooks);
    // Later lines win: the lowest rank's.
    const std::vector<std::string> found = in.groups.world->all_gather(in.backend.end_tuning());
    std::string choices;
    for (auto lines = found.rbegin(); lines != found.rend(); ++lines)
        choices += *lines;
    in.backend.use_tuned(choices);
    return choices;
}

StepReport Engine::train_step(pipeline::BatchSource& batches, double learning_rate) {
    Impl& in = *impl_;
    in.executor.train(batches, *in.optimizer);
    const auto tokens = static_cast<double>(in.setup.global_batch * in.setup.model.sequence);
    const optimizer::StepResult step = in.optimizer->step(learning_rate, 1.0);
    const comm::PhaseScope phase("loss reduction");
    return {in.total_loss() / tokens, step.gradient_norm, step.updated};
}

double Engine::evaluate(pipeline::BatchSource& batches, std::int64_t micro_batches) {
    Impl& in = *impl_;
    in.executor.forward_only(micro_batches, model::Mode::evaluate, batches);
    const std::int64_t samples = micro_batches * in.setup.micro_batch * in.setup.grid.data;
    return in.total_loss() / static_cast<double>(samples * in.setup.model.sequence);
}

std::vector<double> Engine::infer(pipeline::BatchSource& batches, std::int64_t position) {
    Impl& in = *impl_;
    in.executor.forward_only(1, model::Mode::infer, batches);
    std::string mine;
    if (in.executor.has_head() && in.groups.at.data == 0) {
        const std::vector<double> row = in.logits_row(position * in.setup.micro_batch);
        mine.assign(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(double));
    }
    // World rank order is tensor-rank order within the last stage, so the pieces concatenate to the whole
    // vocabulary.
    std::vector<double> logits;
    for (const std::string& piece : in.groups.world->all_gather(mine)) {
        const std::size_t count = piece.size() / sizeof(double), before = logits.size();
        logits.resize(before + count);
        std::copy_n(piece.data(), piece.size(), reinterpret_cast<char*>(logits.data() + before));
    }
    return logits;
}

const EngineSetup& Engine::setup() const {
    return impl_->setup;
}
const memory::Plan& Engine::plan() const {
    return impl_->plan;
}
const comm::ProcessGroups& Engine::groups() const {
    return impl_->groups;
}
const topology::Placement& Engine::placement() const {
    return impl_->placement;
}
const topology::Schedule& Engine::schedule() const {
    return impl_->executor.schedule();
}
model::Parameters& Engine::parameters() {
    return impl_->parameters;
}
optimizer::Optimizer& Engine::optimizer() {
    return *impl_->optimizer;
}

} // namespace trireme::train
