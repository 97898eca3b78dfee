// What a step tells whoever finalises gradients and hands out parameters, while it runs. The optimizer
// implements it: it may reduce a bucket as soon as its last gradient is complete, and gather parameters until
// they are needed.
#pragma once

#include <compare>
#include <cstdint>

namespace trireme::model {

// What computes as one: the embedding, a layer (by its global number), or final norm, logits and loss.
struct Part {
    enum class Kind : std::uint8_t { embedding, layer, head };
    Kind kind = Kind::layer;
    std::int64_t layer = -1;
    auto operator<=>(const Part&) const = default;
};

class StepHooks {
  public:
    virtual ~StepHooks() = default;
    // Before the forward pass of a part of this rank, each time; from then on its parameters are read.
    virtual void parameters_needed(const Part&) {}
    // All micro-batches of the step have added to the main gradients of this part. Word embedding and output
    // layer that are one tensor on this rank belong to the embedding, whose gradient comes last.
    virtual void gradient_complete(const Part&) {}
    // All parts of this chunk on this rank are complete, and the schedule has come to their reduction.
    virtual void gradients_complete(int) {}
    // Between pieces of work, often: communication in flight may move on.
    virtual void progress() {}
};

} // namespace trireme::model
