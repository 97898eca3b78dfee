// Runs instruction lists over pieces and transfer buffers.
#include "trireme/pipeline/executor.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "trireme/base/sizes.hpp"
#include "trireme/comm/phase.hpp"

namespace trireme::pipeline {

using topology::Instruction;
using topology::Op;

namespace {

// Messages of one direction and chunk keep their order; each has a channel of its own. `chunk` is the
// receiver's.
enum class Direction : std::uint8_t { forward, backward };
int channel(Direction direction, int chunk) {
    return 2 * chunk + (direction == Direction::backward ? 1 : 0);
}

// Puts the questions to a gate: each micro-batch once, when an instruction first touches it.
class Entrance {
  public:
    explicit Entrance(StepGate* gate) : gate_(gate) {}
    // Whether the instruction is to be executed.
    bool lets_in(const Instruction& instruction) {
        while (gate_ != nullptr && !closed_ && entered_ <= instruction.micro_batch) {
            closed_ = !gate_->enters(entered_);
            if (!closed_)
                ++entered_;
        }
        return !closed_ || (instruction.micro_batch < entered_ && instruction.op != Op::reduce_gradients);
    }
    StepEnd end() const {
        if (gate_ != nullptr)
            gate_->finish();
        return closed_ ? StepEnd::abandoned : StepEnd::whole;
    }

  private:
    StepGate* gate_;
    std::int64_t entered_ = 0;
    bool closed_ = false;
};

// The most micro-batches of a chunk whose input gradient is done and whose weight gradient is not.
int most_delayed(std::span<const Instruction> instructions, int chunk) {
    int delayed = 0, most = 0;
    for (const Instruction& instruction : instructions) {
        if (instruction.chunk != chunk)
            continue;
        delayed += instruction.op == Op::input_gradient ? 1 : instruction.op == Op::weight_gradient ? -1 : 0;
        most = std::max(most, delayed);
    }
    return most;
}

// The most micro-batches that have passed the first chunk of a stage and not yet the last.
std::size_t most_between_chunks(std::span<const Instruction> instructions, int chunks) {
    int between = 0, most = 0;
    for (const Instruction& instruction : instructions) {
        if (instruction.op != Op::forward)
            continue;
        between += instruction.chunk == 0 ? 1 : 0;
        most = std::max(most, between);
        between -= instruction.chunk == chunks - 1 ? 1 : 0;
    }
    return static_cast<std::size_t>(most);
}

// Slots of each kind that one chunk of this stage needs, whichever number of micro-batches a step has.
struct Slots {
    int in_flight = 0, inputs = 0, gradients = 0, delayed = 0;

    void cover(const topology::Schedule& schedule, std::size_t stage, std::size_t chunk) {
        in_flight = std::max(in_flight, schedule.in_flight[stage][chunk]);
        inputs = std::max(inputs, schedule.inputs_held[stage][chunk]);
        gradients = std::max(gradients, schedule.gradients_held[stage][chunk]);
        delayed = std::max(delayed, most_delayed(schedule.ranks[stage], static_cast<int>(chunk)));
    }
};

// One pass less is left.
template <class Passes>
model::Accumulation count_down(Passes& passes) {
    const bool first = passes.left == passes.all;
    --passes.left;
    return {first ? backend::GradWrite::overwrite : backend::GradWrite::accumulate, passes.left == 0};
}

} // namespace

// A micro-batch in memory of its own, which the next one is written over.
class Executor::KeptBatch {
  public:
    void keep(const model::MicroBatch& batch) {
        batch_ = batch;
        Tensor* const tensors[] = {&batch_.tokens, &batch_.targets, &batch_.documents, &batch_.positions,
                                   &batch_.loss_mask};
        std::size_t bytes = 0;
        for (const Tensor* const tensor : tensors)
            bytes += room_for(*tensor);
        memory_.resize(bytes / sizeof(double));
        auto* to = reinterpret_cast<std::byte*>(memory_.data());
        for (Tensor* const tensor : tensors) {
            if (!tensor->defined())
                continue;
            std::memcpy(to, tensor->data(), static_cast<std::size_t>(tensor->bytes()));
            const std::size_t room = room_for(*tensor);
            *tensor = Tensor(to, tensor->shape(), tensor->type());
            to += room;
        }
    }
    const model::MicroBatch& batch() const { return batch_; }

  private:
    // Whole doubles, so that each is aligned.
    static std::size_t room_for(const Tensor& tensor) {
        return static_cast<std::size_t>(round_up(tensor.bytes(), sizeof(double)));
    }

    model::MicroBatch batch_;
    std::vector<double> memory_;
};

model::PieceSetup piece_of(const topology::Placement& placement, int stage, int chunk) {
    model::PieceSetup setup;
    setup.layers = placement.layers[static_cast<std::size_t>(stage)][static_cast<std::size_t>(chunk)];
    setup.has_embedding = stage == 0 && chunk == 0;
    setup.has_head = stage == placement.stages() - 1 && chunk == placement.chunks() - 1;
    setup.chunk = chunk;
    return setup;
}

Executor::Executor(const model::StageSetup& stage, const topology::Placement& placement,
                   topology::Schedule schedule, memory::Plan& plan, std::span<const int> other_micro_batches)
    : stage_(stage), schedule_(std::move(schedule)) {
    const int here = stage.at.pipeline, stages = placement.stages(), chunks = placement.chunks();
    if (stages == 1 && chunks > 1)
        throw Error(ErrorCategory::usage, concat("one pipeline stage cannot execute ", chunks, " chunks"),
                    {"try: --pipeline-model-parallel-size 2 or more, or leave "
                     "--num-layers-per-virtual-pipeline-stage out"});
    std::vector<Slots> slots(static_cast<std::size_t>(chunks));
    const auto cover = [&](const topology::Schedule& one) {
        for (std::size_t chunk = 0; chunk < slots.size(); ++chunk)
            slots[chunk].cover(one, static_cast<std::size_t>(here), chunk);
        scripts_.push_back({one.micro_batches, one.ranks[static_cast<std::size_t>(here)]});
    };
    cover(schedule_);
    for (const int micro_batches : other_micro_batches)
        cover(topology::make_schedule(schedule_.kind, stages, micro_batches, chunks));
    for (int number = 0; number < chunks; ++number) {
        model::PieceSetup setup = piece_of(placement, here, number);
        const Slots& needed = slots[static_cast<std::size_t>(number)];
        setup.in_flight = needed.in_flight;
        setup.inputs = needed.inputs;
        setup.delayed_gradients = needed.delayed;
        if (setup.has_head)
            head_ = number;
        Chunk chunk{model::Piece(stage, setup, plan), {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
        const model::Dimensions d = model::dimensions(stage);
        const Shape hidden{d.Ts, d.B, d.C};
        const auto plan_buffers = [&](const char* what, int count, std::vector<memory::Item>& items) {
            for (int i = 0; i < count; ++i)
                items.push_back(plan.add(memory::Category::buffers,
                                         concat("chunk ", number, " ", what, " ", i), hidden, stage.type));
        };
        if (!setup.has_head)
            plan_buffers("output", topology::kSendBuffers, chunk.output_items);
        const bool alone = setup.has_embedding && setup.has_head;
        plan_buffers("gradient", alone ? 1 : topology::kSendBuffers + needed.gradients, chunk.gradient_items);
        chunks_.push_back(std::move(chunk));
    }
    several_load_ =
        std::ranges::count_if(chunks_, [](const Chunk& at) { return at.piece.needs_tokens(); }) > 1;
}

bool Executor::needs_tokens() const {
    return std::ranges::any_of(chunks_, [](const Chunk& at) { return at.piece.needs_tokens(); });
}

Executor::~Executor() = default;

void Executor::bind(const memory::Arena& arena, const model::Parameters& parameters,
                    const model::Machinery& machinery, comm::Communicator& pipeline) {
    pipeline_ = &pipeline;
    for (Chunk& chunk : chunks_) {
        chunk.piece.bind(arena, parameters, machinery);
        for (const memory::Item item : chunk.output_items)
            chunk.outputs.push_back(arena.tensor(item));
        for (const memory::Item item : chunk.gradient_items)
            chunk.gradients.push_back(arena.tensor(item));
        chunk.output_sends.resize(chunk.outputs.size());
        chunk.gradient_sends.resize(chunk.gradients.size());
        chunk.gradient_receives.resize(chunk.gradients.size());
        chunk.input_receives.resize(static_cast<std::size_t>(chunk.piece.setup().inputs));
    }
}

StepEnd Executor::train(BatchSource& batches, std::int64_t micro_batches, const model::StepContext& step,
                        StepGate* gate) {
    const auto script = std::ranges::find(scripts_, micro_batches, &Script::micro_batches);
    TRIREME_ASSERT(script != scripts_.end(), "no step of ", micro_batches, " micro-batches was planned");
    return run(*script, model::Mode::train, batches, step, gate);
}

void Executor::rehearse(BatchSource& batches, model::Mode mode) {
    const comm::PhaseScope phase("rehearsal");
    const bool trains = mode == model::Mode::train;
    model::StepHooks none;
    for (Chunk& chunk : chunks_)
        chunk.piece.begin({.hooks = &none});
    // The first pass of a step overwrites main gradients, the others add to them.
    const std::int64_t most = std::ranges::max(scripts_, {}, &Script::micro_batches).micro_batches;
    const std::int64_t passes = trains ? std::min<std::int64_t>(2, most) : 1;
    for (std::int64_t number = 0; number < passes; ++number) {
        const model::MicroBatch batch = batches.load(number);
        for (Chunk& chunk : chunks_)
            chunk.piece.forward(batch, mode, chunk.outputs.empty() ? Tensor{} : chunk.outputs.front());
        for (auto chunk = chunks_.rbegin(); trains && chunk != chunks_.rend(); ++chunk) {
            const model::Accumulation accumulation = {number == 0 ? backend::GradWrite::overwrite
                                                                  : backend::GradWrite::accumulate,
                                                      number == passes - 1};
            const Tensor& gradient = chunk->gradients.front();
            if (chunk->piece.setup().delayed_gradients == 0) {
                chunk->piece.backward(number, batch.first_sample, gradient, accumulation);
                continue;
            }
            chunk->piece.input_gradient(number, batch.first_sample, gradient, accumulation);
            chunk->piece.weight_gradient(number, accumulation);
        }
    }
}

void Executor::forward_only(BatchSource& batches, std::int64_t micro_batches, model::Mode mode,
                            model::StepHooks& hooks) {
    const topology::Schedule forward = topology::make_forward_schedule(
        schedule_.stages, static_cast<int>(micro_batches), static_cast<int>(chunks_.size()));
    run({micro_batches, forward.ranks[static_cast<std::size_t>(stage_.at.pipeline)]}, mode, batches,
        {.hooks = &hooks}, nullptr);
}

void Executor::count_gradients(const Script& script) {
    for (Chunk& chunk : chunks_)
        chunk.ends = chunk.layers = {};
    for (const Instruction& instruction : script.instructions) {
        Chunk& at = chunk(instruction);
        at.ends.all += instruction.op == Op::backward || instruction.op == Op::input_gradient;
        at.layers.all += instruction.op == Op::backward || instruction.op == Op::weight_gradient;
    }
    for (Chunk& chunk : chunks_) {
        chunk.ends.left = chunk.ends.all;
        chunk.layers.left = chunk.layers.all;
    }
}

StepEnd Executor::run(const Script& script, model::Mode mode, BatchSource& batches,
                      const model::StepContext& step, StepGate* gate) {
    count_gradients(script);
    if (several_load_)
        kept_.resize(std::max(kept_.size(),
                              most_between_chunks(script.instructions, static_cast<int>(chunks_.size()))));
    masked_tokens_ = 0;
    for (Chunk& chunk : chunks_)
        chunk.piece.begin(step);
    Entrance entrance(gate);
    for (const Instruction& instruction : script.instructions)
        if (entrance.lets_in(instruction))
            execute(instruction, mode, batches, *step.hooks);
    const comm::PhaseScope phase("last sends of the pipeline");
    for (Chunk& chunk : chunks_) {
        for (comm::Request& send : chunk.output_sends)
            pipeline_->wait(send);
        for (comm::Request& send : chunk.gradient_sends)
            pipeline_->wait(send);
    }
    return entrance.end();
}

Executor::Chunk& Executor::chunk(const Instruction& instruction) {
    return chunks_[static_cast<std::size_t>(instruction.chunk)];
}

void Executor::execute(const Instruction& instruction, model::Mode mode, BatchSource& batches,
                       model::StepHooks& hooks) {
    Chunk& at = chunk(instruction);
    const int here = stage_.at.pipeline, stages = schedule_.stages;
    const auto buffer = [&](std::size_t count) {
        return static_cast<std::size_t>(instruction.micro_batch) % count;
    };
    // The stage and the chunk of the neighbouring pieces in model order.
    const int before = (here + stages - 1) % stages, after = (here + 1) % stages;
    const int chunk_before = here == 0 ? instruction.chunk - 1 : instruction.chunk;
    const int chunk_after = here == stages - 1 ? instruction.chunk + 1 : instruction.chunk;
    switch (instruction.op) {
    case Op::receive_forward: {
        at.input_receives[buffer(at.input_receives.size())] = pipeline_->receive(
            at.piece.input(instruction.micro_batch), before, channel(Direction::forward, instruction.chunk));
        break;
    }
    case Op::forward:
        forward(instruction, mode, batches);
        break;
    case Op::send_forward:
        at.output_sends[buffer(at.outputs.size())] = pipeline_->send(
            at.outputs[buffer(at.outputs.size())], after, channel(Direction::forward, chunk_after));
        break;
    case Op::receive_backward: {
        const std::size_t i = buffer(at.gradients.size());
        pipeline_->wait(at.gradient_sends[i]);
        at.gradient_receives[i] =
            pipeline_->receive(at.gradients[i], after, channel(Direction::backward, instruction.chunk));
        break;
    }
    case Op::backward:
    case Op::input_gradient:
        backward(instruction, batches);
        break;
    case Op::weight_gradient: {
        const comm::PhaseScope phase("weight gradient of micro-batch", instruction.micro_batch);
        at.piece.weight_gradient(instruction.micro_batch, count_down(at.layers));
        break;
    }
    case Op::send_backward:
        at.gradient_sends[buffer(at.gradients.size())] = pipeline_->send(
            at.gradients[buffer(at.gradients.size())], before, channel(Direction::backward, chunk_before));
        break;
    case Op::reduce_gradients: {
        const comm::PhaseScope phase("gradient reduction of chunk", instruction.chunk);
        hooks.gradients_complete(instruction.chunk);
        break;
    }
    }
}

void Executor::forward(const Instruction& instruction, model::Mode mode, BatchSource& batches) {
    Chunk& at = chunk(instruction);
    const comm::PhaseScope phase("forward of micro-batch", instruction.micro_batch);
    pipeline_->wait(
        at.input_receives[static_cast<std::size_t>(instruction.micro_batch) % at.input_receives.size()]);
    Tensor output;
    if (!at.outputs.empty()) {
        const std::size_t i = static_cast<std::size_t>(instruction.micro_batch) % at.outputs.size();
        pipeline_->wait(at.output_sends[i]);
        output = at.outputs[i];
    }
    const model::MicroBatch batch = load(instruction.micro_batch, at, batches);
    if (at.piece.setup().has_head)
        masked_tokens_ += batch.masked_tokens;
    at.piece.forward(batch, mode, output);
}

model::MicroBatch Executor::load(std::int64_t number, const Chunk& at, BatchSource& batches) {
    if (!at.piece.needs_tokens())
        return {number, batches.first_sample(number)};
    const comm::PhaseScope phase("data of micro-batch", number);
    if (!several_load_)
        return batches.load(number);
    // A micro-batch comes to the first chunk of a stage first, and leaves its last chunk last.
    KeptBatch& kept = kept_[static_cast<std::size_t>(number) % kept_.size()];
    if (&at == &chunks_.front())
        kept.keep(batches.load(number));
    TRIREME_ASSERT(kept.batch().number == number, "micro-batch ", number, " was not kept for a later chunk");
    return kept.batch();
}

void Executor::backward(const Instruction& instruction, const BatchSource& batches) {
    Chunk& at = chunk(instruction);
    const comm::PhaseScope phase("backward of micro-batch", instruction.micro_batch);
    const std::size_t i = static_cast<std::size_t>(instruction.micro_batch) % at.gradients.size();
    pipeline_->wait(at.gradient_receives[i]);
    pipeline_->wait(at.gradient_sends[i]);
    const std::int64_t number = instruction.micro_batch, first_sample = batches.first_sample(number);
    const model::Accumulation ends = count_down(at.ends);
    if (instruction.op == Op::input_gradient)
        return at.piece.input_gradient(number, first_sample, at.gradients[i], ends);
    const model::Accumulation layers = count_down(at.layers);
    TRIREME_ASSERT(ends.ends == layers.ends, "a chunk with both whole and halved backward passes");
    at.piece.backward(number, first_sample, at.gradients[i], ends);
}

void Executor::watch(model::Probe* probe) {
    for (Chunk& chunk : chunks_)
        chunk.piece.watch(probe);
}

Tensor Executor::loss() const {
    return chunks_[static_cast<std::size_t>(head_)].piece.loss();
}
Tensor Executor::logits() const {
    return chunks_[static_cast<std::size_t>(head_)].piece.logits();
}

} // namespace trireme::pipeline
