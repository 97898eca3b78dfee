// Plans, binds and drives one model in one layout.
#include "trireme/train/engine.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <optional>
#include <set>

#include "trireme/base/philox.hpp"
#include "trireme/comm/phase.hpp"
#include "trireme/model/documents.hpp"
#include "trireme/plan/declared_rank.hpp"
#include "trireme/plan/report.hpp"

namespace trireme::train {
namespace {

// Tokens for passes whose results are dropped.
class RandomBatches : public pipeline::BatchSource {
  public:
    RandomBatches(const EngineSetup& setup, int data_rank)
        : setup_(setup), data_rank_(data_rank),
          marks_(setup.documents, setup.model.sequence, setup.micro_batch, statistics_type(setup.type)) {
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
        marks_.mark(batch);
        return batch;
    }

  private:
    const EngineSetup& setup_;
    int data_rank_;
    std::vector<std::int32_t> tokens_;
    model::DocumentMarks marks_;
};

} // namespace

struct Engine::Impl {
    EngineSetup setup;
    backend::Backend& backend;
    comm::ProcessGroups groups;
    plan::DeclaredRank declared;
    const memory::Plan& plan = declared.plan;
    model::Parameters& parameters = declared.parts.parameters;
    pipeline::Executor& executor = declared.parts.executor;
    std::optional<optimizer::Optimizer>& optimizer = declared.parts.optimizer;
    std::optional<memory::Arena> arena;
    model::StepHooks no_hooks;
    std::set<model::Mode> rehearsed;

    Impl(const EngineSetup& of, comm::ProcessGroups in, backend::Backend& on)
        : setup(of), backend(on), groups(std::move(in)),
          declared(of, groups.at, {on.device(), on.threads()}, plan::schedule_of(of)) {
        TRIREME_ASSERT(groups.grid == setup.grid, "groups of ", groups.grid.text(), " for ",
                       setup.grid.text());
        comm::agree(*groups.world, [&] {
            if (const auto available = backend.available_bytes())
                plan::require_room(plan, backend.allocated_bytes(), *available,
                                   concat("a rank of stage ", groups.at.pipeline));
            arena.emplace(plan, backend);
            backend.reserve_scratch(declared.scratch_bytes);
        });
        parameters.bind(*arena);
        executor.bind(*arena, parameters, {&backend, groups.tensor.get()}, *groups.pipeline);
        if (optimizer)
            optimizer->bind(*arena, backend, groups);
    }

    double tokens_of(const StepSetup& step) const {
        return static_cast<double>(step.global_batch) * static_cast<double>(setup.model.sequence);
    }
    model::StepHooks& hooks() { return optimizer ? *optimizer : no_hooks; }

    void rehearse(model::Mode mode) {
        if (optimizer)
            optimizer->settle(); // no hook asks for weights that are still being gathered
        RandomBatches batches(setup, groups.at.data);
        executor.rehearse(batches, mode);
        rehearsed.insert(mode);
    }
    void rehearse_once(model::Mode mode) {
        if (backend.device() != backend::Device::cpu && !rehearsed.contains(mode))
            rehearse(mode);
    }

    // Of `tokens` of a pass, those whose loss counts, over all data ranks. The host knows them from the data:
    // nothing waits for the device.
    double counted(double tokens) {
        if (!setup.documents.masks_loss)
            return tokens;
        const comm::PhaseScope phase("count of tokens");
        std::array<double, 1> masked{};
        if (executor.has_head() && groups.at.tensor == 0)
            masked[0] = static_cast<double>(executor.masked_tokens());
        groups.world->all_reduce(masked, comm::ReduceOp::sum);
        return tokens - masked[0];
    }

    // This rank's own sum of token losses on its way to the host; each last stage's first tensor rank has
    // one.
    std::optional<backend::HostCopy> start_own_loss() {
        if (!executor.has_head() || groups.at.tensor != 0)
            return std::nullopt;
        return backend.start_copy_to_host(executor.loss());
    }
    double finish_own_loss(backend::HostCopy copy) {
        const comm::DeviceWaitScope waiting;
        double loss = 0;
        const auto read_as = [&](auto zero) {
            std::array<decltype(zero), 1> value{zero};
            backend.finish_copy_to_host(copy, Tensor(std::span<decltype(zero)>(value), Shape{1}));
            loss = static_cast<double>(value[0]);
        };
        if (executor.loss().type() == DType::f64)
            read_as(double{});
        else
            read_as(float{});
        return loss;
    }
    // Sum of the token losses of all data ranks, on every rank, added in rank order.
    double total_loss(const std::optional<backend::HostCopy>& own) {
        std::array<double, 1> sum{own ? finish_own_loss(*own) : 0};
        groups.world->all_reduce(sum, comm::ReduceOp::sum);
        return sum[0];
    }

    // Row `row` of the logits, as doubles; this rank's columns of the real vocabulary.
    std::vector<double> logits_row(std::int64_t row) {
        const model::Dimensions d = model::dimensions(plan::stage_setup(setup, groups.at));
        const Tensor from = executor.logits().rows(row, 1).reshaped(Shape{d.V});
        std::vector<double> result;
        with_float_type(from.type(), [&](auto zero) {
            using T = decltype(zero);
            using Number = std::conditional_t<kIsNarrow<T>, float, T>;
            std::vector<T> values(static_cast<std::size_t>(d.V));
            backend.copy_to_host(from, Tensor(std::span(values), Shape{d.V}));
            for (const T value : values)
                result.push_back(static_cast<Number>(value));
        });
        result.resize(static_cast<std::size_t>(d.valid_rows));
        return result;
    }
};

Engine::Engine(const EngineSetup& setup, comm::ProcessGroups groups, backend::Backend& backend)
    : impl_(std::make_unique<Impl>(setup, std::move(groups), backend)) {}

// MPI writes into our memory for as long as anything is in flight: where settle() was not reached, because an
// error unwinds and other ranks may never send the rest, the memory stays until the process ends. A GPU can
// be told to give up, and must be, since freeing its memory waits for all that runs.
Engine::~Engine() {
    const bool unwinds = std::uncaught_exceptions() > 0;
    if (impl_->backend.device() != backend::Device::cpu) {
        if (unwinds)
            impl_->groups.abandon();
        else
            impl_->groups.data->release_buffers();
        return;
    }
    if (unwinds || (impl_->optimizer && impl_->optimizer->in_flight()))
        static_cast<void>(impl_.release());
}

void Engine::settle() {
    if (impl_->optimizer)
        impl_->optimizer->settle();
}

void Engine::initialise_weights() {
    impl_->parameters.initialise(impl_->setup.seed, impl_->backend, impl_->setup.host_threads,
                                 [&](const model::DrawnPart& drawn) {
                                     if (impl_->optimizer)
                                         impl_->optimizer->set_master(drawn);
                                 });
}

void Engine::rehearse(model::Mode mode) {
    impl_->rehearse(mode);
}

std::string Engine::tune(const std::string& known) {
    const comm::PhaseScope phase("timing of matrix products");
    Impl& in = *impl_;
    if (in.backend.device() == backend::Device::cpu)
        return {};
    comm::agree(*in.groups.world, [&] { in.backend.use_tuned(known); });
    in.backend.start_tuning();
    in.rehearse(model::Mode::train);
    // Later lines win: the lowest rank's.
    const std::vector<std::string> found = in.groups.world->all_gather(in.backend.end_tuning());
    std::string choices;
    for (auto lines = found.rbegin(); lines != found.rend(); ++lines)
        choices += *lines;
    in.backend.use_tuned(choices);
    return choices;
}

StepReport Engine::train_step(pipeline::BatchSource& batches, const StepSetup& step,
                              pipeline::StepGate* gate) {
    Impl& in = *impl_;
    in.rehearse_once(model::Mode::train);
    const double tokens = in.tokens_of(step);
    in.optimizer->begin();
    const pipeline::StepEnd end =
        in.executor.train(batches, in.setup.micro_batches(step.global_batch),
                          {.hooks = &*in.optimizer, .loss_gradient = step.loss_scale / tokens}, gate);
    if (end == pipeline::StepEnd::abandoned)
        return {.abandoned = true};
    // Gradients were divided by all tokens, since how many count is known only now. If none does, they are
    // zero as they are.
    const double counted = in.counted(tokens), correction = counted > 0 ? tokens / counted : 1;
    const std::optional<backend::HostCopy> loss = in.start_own_loss();
    const optimizer::StepResult result = in.optimizer->step(step.rates, correction / step.loss_scale);
    const comm::PhaseScope phase("loss reduction");
    return {TokenLosses{in.total_loss(loss), counted}.mean(), result.gradient_norm, result.updated};
}

StepReport Engine::train_step(pipeline::BatchSource& batches, double learning_rate,
                              pipeline::StepGate* gate) {
    const EngineSetup& setup = impl_->setup;
    return train_step(
        batches, {.rates = {learning_rate, setup.optimizer.weight_decay}, .global_batch = setup.global_batch},
        gate);
}

void Engine::forward_and_backward(pipeline::BatchSource& batches, const StepSetup& step,
                                  model::Probe* probe) {
    Impl& in = *impl_;
    in.rehearse_once(model::Mode::train);
    in.optimizer->settle(); // nobody will ask for weights that are still being gathered
    model::StepHooks none;
    in.executor.watch(probe);
    in.executor.train(batches, in.setup.micro_batches(step.global_batch),
                      {.hooks = &none, .loss_gradient = step.loss_scale / in.tokens_of(step)});
    in.executor.watch(nullptr);
}

std::optional<double> Engine::own_loss() {
    const std::optional<backend::HostCopy> own = impl_->start_own_loss();
    return own ? std::optional(impl_->finish_own_loss(*own)) : std::nullopt;
}

Tensor Engine::own_loss_tensor() const {
    return impl_->executor.loss();
}

TokenLosses Engine::evaluate(pipeline::BatchSource& batches, std::int64_t micro_batches) {
    Impl& in = *impl_;
    in.rehearse_once(model::Mode::evaluate);
    in.executor.forward_only(batches, micro_batches, model::Mode::evaluate, in.hooks());
    const std::int64_t samples = micro_batches * in.setup.micro_batch * in.setup.grid.data;
    const double counted = in.counted(static_cast<double>(samples * in.setup.model.sequence));
    return {in.total_loss(in.start_own_loss()), counted};
}

std::vector<double> Engine::infer(pipeline::BatchSource& batches, std::int64_t position) {
    Impl& in = *impl_;
    in.rehearse_once(model::Mode::infer);
    in.executor.forward_only(batches, 1, model::Mode::infer, in.hooks());
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

bool Engine::needs_tokens() const {
    return impl_->executor.needs_tokens();
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
    return impl_->parameters.setup().placement;
}
const topology::Schedule& Engine::schedule() const {
    return impl_->executor.schedule();
}
model::Parameters& Engine::parameters() {
    settle();
    return impl_->parameters;
}
optimizer::Optimizer& Engine::optimizer() {
    return *impl_->optimizer;
}

} // namespace trireme::train
