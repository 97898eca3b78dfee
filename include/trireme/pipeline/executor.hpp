// Executes a pipeline schedule (topology/schedule.hpp) over the pieces of this stage: computes, sends and
// receives as the instruction list of this rank says, and nothing else. It owns the pieces and the transfer
// buffers.
//
// Buffers of a chunk: kSendBuffers outputs for sends in flight, and kSendBuffers more gradient buffers than
// the schedule's bound: a gradient is received into one, flows back through the layers in place, and is sent
// on from it. A buffer is used again only after its send is done.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trireme/comm/communicator.hpp"
#include "trireme/memory/plan.hpp"
#include "trireme/model/piece.hpp"
#include "trireme/model/step_hooks.hpp"
#include "trireme/topology/placement.hpp"
#include "trireme/topology/schedule.hpp"

namespace trireme::pipeline {

// The micro-batches of one step (or evaluation) of this data rank, numbered from 0.
class BatchSource {
  public:
    virtual ~BatchSource() = default;
    // The consumed-sample number of row 0 of a micro-batch. Asked on every stage.
    virtual std::int64_t first_sample(std::int64_t number) const = 0;
    // Asked once for each micro-batch, in order, where tokens or targets are needed: on the first and the
    // last stage, and on every stage whose layers need documents or positions. The tensors must stay valid
    // until the next call.
    virtual model::MicroBatch load(std::int64_t number) = 0;
};

// Layers, embedding and head of one piece; slots are the executor's to fill in.
model::PieceSetup piece_of(const topology::Placement& placement, int stage, int chunk);

// Decides, as a step comes to each of its micro-batches, whether it is worth going on.
class StepGate {
  public:
    virtual ~StepGate() = default;
    // Asked once for each micro-batch, in order, before anything of it is done here. Every rank of the world
    // must get the same answer for the same number. No: it and all later ones are left out, and so is the
    // reduction.
    virtual bool enters(std::int64_t micro_batch) = 0;
    virtual void finish() = 0; // the step is over, whole or not
};

enum class StepEnd : std::uint8_t { whole, abandoned };

class Executor {
  public:
    // other_micro_batches: counts besides schedule.micro_batches that steps may have (while the batch size is
    // raised); memory is planned for the most that any of them needs.
    Executor(const model::StageSetup& stage, const topology::Placement& placement,
             topology::Schedule schedule, memory::Plan& plan, std::span<const int> other_micro_batches = {});

    ~Executor();

    // pipeline: the pipeline group (rank = stage).
    void bind(const memory::Arena& arena, const model::Parameters& parameters,
              const model::Machinery& machinery, comm::Communicator& pipeline);

    // Forward and backward of all micro-batches of a step; main gradients are the sums over them.
    // Abandoned by the gate, the gradients mean nothing and the hooks were not told.
    StepEnd train(BatchSource& batches, std::int64_t micro_batches, const model::StepContext& step,
                  StepGate* gate = nullptr);
    // Runs every piece of this stage on its own, without messages and without hooks; what it computes means
    // nothing. On a GPU it makes kernels load, libraries plan and buffers exist, all of which may wait for
    // every kernel that runs: in a step, a receive that was posted ahead is one, and its message may depend
    // on what this rank is about to compute.
    void rehearse(BatchSource& batches, model::Mode mode);
    // Forward only, without dropout: evaluate leaves the loss sum in loss(), infer the logits in logits().
    void forward_only(BatchSource& batches, std::int64_t micro_batches, model::Mode mode,
                      model::StepHooks& hooks);

    void watch(model::Probe* probe); // of all pieces (Piece::watch())
    bool needs_tokens() const;       // whether batches are asked for any (Piece::needs_tokens())
    bool has_head() const { return head_ >= 0; }
    Tensor
    loss() const; // [1] stat: sum of token losses of the last train() or forward_only(); with the head only
    Tensor logits() const; // [n, V]; with the head only

    // Tokens of the last train() or forward_only() whose loss did not count; with the head only.
    std::int64_t masked_tokens() const { return masked_tokens_; }

    const topology::Schedule& schedule() const { return schedule_; }

  private:
    struct Chunk {
        model::Piece piece;
        std::vector<memory::Item> output_items, gradient_items;
        std::vector<Tensor> outputs, gradients; // [Ts, B, C]
        std::vector<comm::Request> output_sends, gradient_sends;
        std::vector<comm::Request> input_receives;    // by input slot
        std::vector<comm::Request> gradient_receives; // by gradient buffer
        // Of the step under way: the passes that add to main gradients of head and embedding, and of layers.
        struct Passes {
            int all = 0, left = 0;
        };
        Passes ends, layers;
    };
    // What this stage does in steps of one number of micro-batches.
    struct Script {
        std::int64_t micro_batches;
        std::vector<topology::Instruction> instructions;
    };
    StepEnd run(const Script& script, model::Mode mode, BatchSource& batches, const model::StepContext& step,
                StepGate* gate);
    void execute(const topology::Instruction& instruction, model::Mode mode, BatchSource& batches,
                 model::StepHooks& hooks);
    void forward(const topology::Instruction& instruction, model::Mode mode, BatchSource& batches);
    model::MicroBatch load(std::int64_t number, const Chunk& at, BatchSource& batches);
    void backward(const topology::Instruction& instruction, const BatchSource& batches);
    void count_gradients(const Script& script);
    Chunk& chunk(const topology::Instruction& instruction);

    model::StageSetup stage_;
    topology::Schedule schedule_;
    std::vector<Script> scripts_; // the first: schedule_'s
    std::vector<Chunk> chunks_;
    // Micro-batches that the first chunk has loaded and later ones still need, by their number.
    class KeptBatch;
    std::vector<KeptBatch> kept_;
    bool several_load_ = false; // chunks of this stage read tokens
    std::int64_t masked_tokens_ = 0;
    int head_ = -1; // chunk with the head, if it is here
    comm::Communicator* pipeline_ = nullptr;
};

} // namespace trireme::pipeline
