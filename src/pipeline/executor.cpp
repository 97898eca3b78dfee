// Runs instruction lists over pieces and transfer buffers.
#include "trireme/pipeline/executor.hpp"

#include <algorithm>
#include <array>
#include <utility>

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

// The first pass of a step overwrites what the last step left.
backend::GradWrite first_writes(bool& written) {
    return std::exchange(written, true) ? backend::GradWrite::accumulate : backend::GradWrite::overwrite;
}

} // namespace

Executor::Executor(const model::StageSetup& stage, const topology::Placement& placement,
                   topology::Schedule schedule, memory::Plan& plan)
    : stage_(stage), schedule_(std::move(schedule)) {
    const int here = stage.at.pipeline, stages = placement.stages(), chunks = placement.chunks();
    if (stages == 1 && chunks > 1)
        throw Error(ErrorCategory::usage, concat("one pipeline stage cannot execute ", chunks, " chunks"),
                    {"try: --pipeline-model-parallel-size 2 or more, or leave "
                     "--num-layers-per-virtual-pipeline-stage out"});
    for (int number = 0; number < chunks; ++number) {
        model::PieceSetup setup;
        setup.layers = placement.layers[static_cast<std::size_t>(here)][static_cast<std::size_t>(number)];
        setup.has_embedding = here == 0 && number == 0;
        setup.has_head = here == stages - 1 && number == chunks - 1;
        setup.chunk = number;
        const auto bound = [&](const std::vector<std::vector<int>>& bounds) {
            return bounds[static_cast<std::size_t>(here)][static_cast<std::size_t>(number)];
        };
        setup.in_flight = bound(schedule_.in_flight);
        setup.inputs = bound(schedule_.inputs_held);
        setup.delayed_gradients = most_delayed(schedule_.ranks[static_cast<std::size_t>(here)], number);
        if (setup.has_head)
            head_ = number;
        Chunk chunk{model::Piece(stage, setup, plan), {}, {}, {}, {}, {}, {}, {}, {}, false, false};
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
        plan_buffers("gradient", alone ? 1 : topology::kSendBuffers + bound(schedule_.gradients_held),
                     chunk.gradient_items);
        chunks_.push_back(std::move(chunk));
    }
}

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

void Executor::train(BatchSource& batches, model::StepHooks& hooks) {
    run(schedule_.ranks[static_cast<std::size_t>(stage_.at.pipeline)], model::Mode::train, batches, &hooks);
}

void Executor::forward_only(std::int64_t micro_batches, model::Mode mode, BatchSource& batches) {
    const topology::Schedule forward = topology::make_forward_schedule(
        schedule_.stages, static_cast<int>(micro_batches), static_cast<int>(chunks_.size()));
    run(forward.ranks[static_cast<std::size_t>(stage_.at.pipeline)], mode, batches, nullptr);
}

void Executor::run(std::span<const Instruction> instructions, model::Mode mode, BatchSource& batches,
                   model::StepHooks* hooks) {
    for (Chunk& chunk : chunks_) {
        chunk.piece.begin();
        chunk.ends_written = chunk.layers_written = false;
    }
    for (const Instruction& instruction : instructions)
        execute(instruction, mode, batches, hooks);
    const comm::PhaseScope phase("last sends of the pipeline");
    for (Chunk& chunk : chunks_) {
        for (comm::Request& send : chunk.output_sends)
            pipeline_->wait(send);
        for (comm::Request& send : chunk.gradient_sends)
            pipeline_->wait(send);
    }
}

Executor::Chunk& Executor::chunk(const Instruction& instruction) {
    return chunks_[static_cast<std::size_t>(instruction.chunk)];
}

void Executor::execute(const Instruction& instruction, model::Mode mode, BatchSource& batches,
                       model::StepHooks* hooks) {
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
        at.piece.weight_gradient(instruction.micro_batch, first_writes(at.layers_written));
        break;
    }
    case Op::send_backward:
        at.gradient_sends[buffer(at.gradients.size())] = pipeline_->send(
            at.gradients[buffer(at.gradients.size())], before, channel(Direction::backward, chunk_before));
        break;
    case Op::reduce_gradients: {
        const comm::PhaseScope phase("gradient reduction of chunk", instruction.chunk);
        hooks->gradients_complete(instruction.chunk);
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
    at.piece.forward(load(instruction.micro_batch, at, batches), mode, output);
}

model::MicroBatch Executor::load(std::int64_t number, const Chunk& at, BatchSource& batches) const {
    if (!at.piece.setup().has_embedding && !at.piece.setup().has_head)
        return {number, batches.first_sample(number)};
    const comm::PhaseScope phase("data of micro-batch", number);
    return batches.load(number);
}

void Executor::backward(const Instruction& instruction, const BatchSource& batches) {
    Chunk& at = chunk(instruction);
    const comm::PhaseScope phase("backward of micro-batch", instruction.micro_batch);
    const std::size_t i = static_cast<std::size_t>(instruction.micro_batch) % at.gradients.size();
    pipeline_->wait(at.gradient_receives[i]);
    pipeline_->wait(at.gradient_sends[i]);
    const std::int64_t number = instruction.micro_batch, first_sample = batches.first_sample(number);
    const backend::GradWrite write = first_writes(at.ends_written);
    if (instruction.op == Op::backward)
        at.piece.backward(number, first_sample, write, at.gradients[i]);
    else
        at.piece.input_gradient(number, first_sample, write, at.gradients[i]);
}

Tensor Executor::loss() const {
    return chunks_[static_cast<std::size_t>(head_)].piece.loss();
}
Tensor Executor::logits() const {
    return chunks_[static_cast<std::size_t>(head_)].piece.logits();
}

} // namespace trireme::pipeline
