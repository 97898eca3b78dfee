// The border of the regions that tensor ranks cut by columns, heads or vocabulary. Outside, every rank holds
// all tokens, or with sequence parallelism a part of them, which is rows [first, first + ns) of the whole.
//
//     enter     outside [ns, C] -> inside [n, C]     the same tensor, or an all-gather
//     leave     inside [n, C], partial sums -> outside [ns, C]     an all-reduce, or a reduce-scatter
//
// In the backward pass a gradient enters where activations left and leaves where they entered.
#pragma once

#include "trireme/memory/arena.hpp"
#include "trireme/memory/plan.hpp"
#include "trireme/model/stage_setup.hpp"

namespace trireme::model {

class TensorRegion {
  public:
    explicit TensorRegion(const StageSetup& setup);
    // One [n, C] buffer, shared by all layers: what is inside now.
    void plan(memory::Plan& plan);
    void bind(const memory::Arena& arena, const Machinery& machinery);

    bool cuts_sequence() const { return cuts_; }
    // The part of `whole` ([n, C] or [T, B, C]) that stands outside on this rank.
    Tensor outside(const Tensor& whole) const;

    // `local` as seen inside; valid until the next enter() or leave_from().
    Tensor enter(const Tensor& local) const;
    // `whole`, of which this rank has filled outside(whole), becomes whole.
    void complete(Tensor whole) const;

    // Where to compute the partial sums that will leave to `local`: it itself, or the buffer.
    Tensor leave_from(const Tensor& local) const;
    // Sums `partial` over tensor ranks into `local`, which is leave_from's argument or outside(partial).
    void leave(Tensor partial, Tensor local) const;

  private:
    Dimensions d_;
    bool cuts_;
    DType type_;
    memory::Item item_;
    Tensor buffer_;
    comm::Communicator* tensor_ = nullptr;
};

} // namespace trireme::model
