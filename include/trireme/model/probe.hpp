// Somebody who looks at what passes between the layers of a step, for examinations; there is none in a normal
// step.
#pragma once

#include <cstdint>

#include "trireme/tensor/tensor.hpp"

namespace trireme::model {

class Probe {
  public:
    static constexpr std::int64_t kEmbedding = -1; // as a layer's number

    virtual ~Probe() = default;
    // What a layer (global number, or kEmbedding) has put out: [Ts, B, C].
    virtual void output(std::int64_t layer, std::int64_t micro_batch, const Tensor& output) = 0;
    // The gradient of a layer's input: [Ts, B, C].
    virtual void gradient(std::int64_t layer, std::int64_t micro_batch, const Tensor& gradient) = 0;
};

} // namespace trireme::model
