// A piece of the model: the layers of one chunk of one pipeline stage, with the embedding before the first
// and the head after the last; one with embedding or head may have no layer. It owns the layout of
// activations: one slot of kept activations for each micro-batch in flight, used round-robin, and more inputs
// than slots, since receives fill inputs while the slots are still full.
#pragma once

#include <cstdint>
#include <memory>

#include "trireme/memory/arena.hpp"
#include "trireme/memory/plan.hpp"
#include "trireme/model/parameters.hpp"
#include "trireme/model/probe.hpp"
#include "trireme/model/stage_setup.hpp"
#include "trireme/model/step_hooks.hpp"
#include "trireme/topology/box.hpp"

namespace trireme::model {

struct PieceSetup {
    topology::Interval layers; // global numbers
    bool has_embedding = false;
    bool has_head = false;
    int chunk = 0;
    int in_flight = 1; // slots of activations
    // Slots of module gradients, where the schedule delays weight gradients; 0: it does not.
    int delayed_gradients = 0;
    int inputs = 2; // slots of inputs, filled ahead by receives; a piece with the embedding has in_flight
};

// One micro-batch as the data layer gives it; host memory. Only the pieces that need them read them.
struct MicroBatch {
    std::int64_t number = 0;       // within the step, on this data rank
    std::int64_t first_sample = 0; // consumed-sample number of row 0
    Tensor tokens = {};            // [T, B] i32
    Tensor targets = {};           // [T * B] i32
    // What model::DocumentMarks makes of the tokens, each undefined unless the setup of documents wants it.
    Tensor documents = {};          // [T, B] i32: the position at which the token's document begins
    Tensor positions = {};          // [T, B] i32
    Tensor loss_mask = {};          // [T * B] stat: 1, or 0 where the loss does not count
    std::int64_t masked_tokens = 0; // zeros of loss_mask
};

// What a step (or an evaluation) is about. loss_gradient: what the gradient of each token's loss starts as:
// 1 / (tokens of the global batch), times the loss scale.
struct StepContext {
    StepHooks* hooks = nullptr;
    double loss_gradient = 0;
};

// A pass over one micro-batch and the main gradients in question: the first of a step overwrites what the
// last step left, the others add to it; the last one ends it.
struct Accumulation {
    backend::GradWrite write = backend::GradWrite::accumulate;
    bool ends = false;
};

class Piece {
  public:
    Piece(const StageSetup& stage, const PieceSetup& setup, memory::Plan& plan);
    ~Piece();
    Piece(Piece&&) noexcept;

    void bind(const memory::Arena& arena, const Parameters& parameters, const Machinery& machinery);
    const PieceSetup& setup() const;
    bool needs_tokens() const; // whether forward() reads more of a micro-batch than its numbers

    // From now on; null: nobody looks. Looking costs a pass over each output and waits for it.
    void watch(Probe* probe);
    // Before the micro-batches of a step or an evaluation. The hooks must live until they are through.
    void begin(const StepContext& step);
    // Where the input of a micro-batch is to be received: [Ts, B, C]. Not for a piece with the embedding.
    Tensor input(std::int64_t micro_batch) const;
    // output [Ts, B, C]; undefined for a piece with the head.
    void forward(const MicroBatch& batch, Mode mode, Tensor output);
    // grad [Ts, B, C]: the gradient of the output (anything for a piece with the head) becomes that of the
    // input. Main gradients are written or added to.
    void backward(std::int64_t micro_batch, std::int64_t first_sample, Tensor grad,
                  Accumulation accumulation);

    // The two halves, for schedules that delay the second: what it needs is kept in between. Not with
    // recomputation. `accumulation` is that of head and embedding, then that of the layers.
    void input_gradient(std::int64_t micro_batch, std::int64_t first_sample, Tensor grad,
                        Accumulation accumulation);
    void weight_gradient(std::int64_t micro_batch, Accumulation accumulation);

    // With the head: sum of the token losses since begin() [1] stat, and the logits of the last forward pass
    // [n, V].
    Tensor loss() const;
    Tensor logits() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trireme::model
