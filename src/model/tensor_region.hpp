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
#include "trireme/topology/box.hpp"

namespace trireme::model {

inline Tensor rows_of(const Tensor& whole, topology::Interval rows) {
    return whole.rows(rows.begin, rows.size());
}

class TensorRegion {
  public:
    explicit TensorRegion(const StageSetup& setup);
    // One [n, C] buffer, shared by all layers: what is inside now.
    void plan(memory::Plan& plan);
    void bind(const memory::Arena& arena, const Machinery& machinery);

    bool cuts_sequence() const { return cuts_; }
    // The part of `whole` ([n, C] or [T, B, C]) that stands outside on this rank.
    Tensor outside(const Tensor& whole) const;

    // `whole`, of which this rank has filled outside(whole), becomes whole.
    void complete(Tensor whole) const;

    // `local` as seen inside, for what computes each row by itself: compute(x, rows) is called for parts that
    // together are the whole, x [rows.size(), C] being its rows `rows`; this rank's own come first, while the
    // others' are on their way.
    template <class Compute>
    void enter_by_rows(const Tensor& local, const Compute& compute) const;
    // complete() of [n, C] for what computes each row by itself.
    template <class Compute>
    void complete_by_rows(const Tensor& whole, const Compute& compute) const;

    // Where to compute the partial sums that will leave to `local`: it itself, or the buffer.
    Tensor leave_from(const Tensor& local) const;
    // Sums `partial` over tensor ranks into `local`, which is leave_from's argument or outside(partial).
    void leave(Tensor partial, Tensor local) const;

    // Entry and leave() beside what is computed until finish(): before, `local` must not change, nor the
    // buffer or `partial` be touched. finish() of an entry gives `local` as seen inside, valid until the next
    // entry or leave_from().
    struct Entry {
        Tensor inside;
        comm::Request request;
    };
    Entry start_enter(const Tensor& local) const;
    comm::Request start_leave(Tensor partial, Tensor local) const;
    Tensor finish(Entry entry) const;
    void finish(comm::Request request) const;

  private:
    // Every row of `whole` but those that stand outside on this rank.
    template <class Compute>
    void others(const Tensor& whole, const Compute& compute) const;
    topology::Interval own_rows() const { return {tensor_->rank() * d_.ns, (tensor_->rank() + 1) * d_.ns}; }

    Dimensions d_;
    bool cuts_;
    DType type_;
    memory::Item item_;
    Tensor buffer_;
    comm::Communicator* tensor_ = nullptr;
};

template <class Compute>
void TensorRegion::enter_by_rows(const Tensor& local, const Compute& compute) const {
    const Tensor own = local.reshaped(Shape{d_.ns, d_.C});
    if (!cuts_)
        return compute(own, topology::Interval{0, d_.n});
    const Entry entry = start_enter(local);
    compute(own, own_rows());
    others(finish(entry), compute);
}

template <class Compute>
void TensorRegion::complete_by_rows(const Tensor& whole, const Compute& compute) const {
    if (!cuts_)
        return compute(whole, topology::Interval{0, d_.n});
    const comm::Request request = tensor_->start_all_gather(outside(whole), whole);
    compute(outside(whole), own_rows());
    finish(request);
    others(whole, compute);
}

template <class Compute>
void TensorRegion::others(const Tensor& whole, const Compute& compute) const {
    const topology::Interval own = own_rows();
    for (const topology::Interval rows : {topology::Interval{0, own.begin}, {own.end, d_.n}})
        if (!rows.empty())
            compute(rows_of(whole, rows), rows);
}

} // namespace trireme::model
