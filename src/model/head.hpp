// The last thing of the last stage: final norm, logits against the word embedding or an output layer of its
// own, and the cross-entropy, all cut over tensor ranks by vocabulary; the logits are never gathered for a
// loss.
//
// One logits buffer serves all micro-batches. The backward pass finds them there if no other micro-batch came
// between (1F1B's last stage), and computes them again from the kept norm output otherwise (GPipe): the same
// bits either way.
#pragma once

#include <cstdint>
#include <string>

#include "module.hpp"
#include "tensor_region.hpp"
#include "trireme/memory/plan.hpp"
#include "trireme/model/stage_setup.hpp"

namespace trireme::model {

// What the head's forward pass of one micro-batch leaves for its backward pass.
template <class T>
struct HeadActivations {
    T input;     // [Ts, B, C], written by the last layer
    T norm_mean; // [ns] stat
    T norm_rstd; // [ns] stat
    T norm;      // [Ts, B, C]
    T maximum;   // [n] stat
    T sums;      // [2, n] stat
    T targets;   // [n] i32
    T loss_mask; // [n] stat, where the ends of documents mask the loss
};

class Head {
  public:
    explicit Head(const StageSetup& setup);

    HeadActivations<memory::Item> plan_activations(memory::Plan& plan, const std::string& name) const;
    void plan_shared(memory::Plan& plan);
    void bind(const memory::Arena& arena, const Parameters& parameters, const Machinery& machinery);

    // Sets the loss sum to zero. loss_gradient: what the gradient of each token's loss starts as.
    void begin(double loss_gradient);
    // From kept.input (and kept.targets unless mode is infer). Adds the loss of the micro-batch to loss().
    void forward(const HeadActivations<Tensor>& kept, std::int64_t micro_batch, Mode mode);
    // grad [Ts, B, C] becomes the gradient of kept.input; adds to the main gradients of norm and word
    // embedding.
    void backward(const HeadActivations<Tensor>& kept, std::int64_t micro_batch, backend::GradWrite write,
                  Tensor grad);

    const Tensor& loss() const { return loss_; }     // [1] stat: sum over tokens since begin()
    const Tensor& logits() const { return logits_; } // [n, V] of the last forward pass

  private:
    void compute_logits(const HeadActivations<Tensor>& kept);

    StageSetup setup_;
    Dimensions d_;
    Machinery machinery_;
    TensorRegion region_;
    Norm norm_;
    Tensor word_, grad_word_; // [V, C]
    memory::Item logits_item_, loss_item_, grad_norm_item_;
    Tensor logits_, loss_, grad_norm_;
    double loss_gradient_ = 0;
    std::int64_t logits_of_ = -1;   // micro-batch whose logits the buffer holds
    std::int64_t gradient_of_ = -1; // or whose gradient of logits it holds already
};

HeadActivations<Tensor> bind(const memory::Arena& arena, const HeadActivations<memory::Item>& items);

} // namespace trireme::model
