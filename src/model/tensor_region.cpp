// Gathers and reductions at the border of tensor-parallel regions.
#include "tensor_region.hpp"

namespace trireme::model {

TensorRegion::TensorRegion(const StageSetup& setup)
    : d_(dimensions(setup)), cuts_(setup.sequence_parallel == SequenceParallel::yes && setup.grid.tensor > 1),
      type_(setup.type) {}

void TensorRegion::plan(memory::Plan& plan) {
    if (cuts_)
        item_ = plan.share(memory::Category::activations, "gathered sequence", Shape{d_.n, d_.C}, type_);
}

void TensorRegion::bind(const memory::Arena& arena, const Machinery& machinery) {
    buffer_ = arena.tensor(item_);
    tensor_ = machinery.tensor;
}

Tensor TensorRegion::outside(const Tensor& whole) const {
    if (!cuts_)
        return whole;
    const std::int64_t parts = d_.T / d_.Ts, rows = whole.shape()[0] / parts;
    return whole.rows(rows * tensor_->rank(), rows);
}

void TensorRegion::complete(Tensor whole) const {
    if (cuts_)
        tensor_->all_gather(outside(whole), whole);
}

Tensor TensorRegion::leave_from(const Tensor& local) const {
    return cuts_ ? buffer_ : local;
}

void TensorRegion::leave(Tensor partial, Tensor local) const {
    if (cuts_)
        tensor_->reduce_scatter(partial, local);
    else
        tensor_->all_reduce(partial, comm::ReduceOp::sum);
}

TensorRegion::Entry TensorRegion::start_enter(const Tensor& local) const {
    if (!cuts_)
        return {local, {}};
    return {buffer_, tensor_->start_all_gather(local, buffer_)};
}

comm::Request TensorRegion::start_leave(Tensor partial, Tensor local) const {
    return cuts_ ? tensor_->start_reduce_scatter(partial, local)
                 : tensor_->start_all_reduce(partial, comm::ReduceOp::sum);
}

Tensor TensorRegion::finish(Entry entry) const {
    finish(entry.request);
    return entry.inside;
}

void TensorRegion::finish(comm::Request request) const {
    tensor_->wait(request);
}

} // namespace trireme::model
