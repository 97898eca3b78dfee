// The checks that every communicator makes before it moves a byte.
#include "trireme/comm/communicator.hpp"

#include <utility>

namespace trireme::comm {

namespace {

void check_defined(const Tensor& x, const char* what, const std::string& group) {
    TRIREME_ASSERT(x.defined() || x.shape().elements() == 0, what, " of the ", group,
                   " got an undefined tensor");
}

void check_reducible(const Tensor& x, ReduceOp op, const std::string& group) {
    const DType type = x.type();
    const bool is_float = type == DType::f32 || type == DType::f64;
    const bool is_summable = is_float || is_narrow(type) || type == DType::i32 || type == DType::i64;
    TRIREME_ASSERT(op == ReduceOp::sum ? is_summable : is_float, trireme::name(type),
                   " cannot be reduced by ", op == ReduceOp::sum ? "sum" : "maximum", " in the ", group);
}

} // namespace

Communicator::Communicator(std::string name, std::vector<int> world_ranks, int rank)
    : name_(std::move(name)), world_ranks_(std::move(world_ranks)), rank_(rank) {
    TRIREME_ASSERT(rank_ >= 0 && rank_ < size(), "rank ", rank_, " in the ", name_, " of ", size(), " ranks");
}

void Communicator::check_all_reduce(const Tensor& x, ReduceOp op) const {
    check_defined(x, "all-reduce", name_);
    check_reducible(x, op, name_);
}

void Communicator::check_reduce_scatter(const Tensor& from, const Tensor& to) const {
    check_defined(from, "reduce-scatter", name_);
    check_defined(to, "reduce-scatter", name_);
    check_reducible(from, ReduceOp::sum, name_);
    TRIREME_ASSERT(from.type() == to.type() && from.elements() == size() * to.elements(),
                   "reduce-scatter over ", size(), " ranks from ", trireme::name(from.type()),
                   from.shape().text(), " to ", trireme::name(to.type()), to.shape().text());
}

void Communicator::check_all_gather(const Tensor& from, const Tensor& to) const {
    check_defined(from, "all-gather", name_);
    check_defined(to, "all-gather", name_);
    TRIREME_ASSERT(from.type() == to.type() && to.elements() == size() * from.elements(), "all-gather over ",
                   size(), " ranks from ", trireme::name(from.type()), from.shape().text(), " to ",
                   trireme::name(to.type()), to.shape().text());
}

void Communicator::all_reduce(Tensor x, ReduceOp op) {
    check_all_reduce(x, op);
    if (x.elements() > 0)
        do_all_reduce(x, op);
}

void Communicator::reduce_scatter(const Tensor& from, Tensor to) {
    check_reduce_scatter(from, to);
    if (to.elements() > 0)
        do_reduce_scatter(from, to);
}

void Communicator::all_gather(const Tensor& from, Tensor to) {
    check_all_gather(from, to);
    if (from.elements() > 0)
        do_all_gather(from, to);
}

Request Communicator::start_all_reduce(Tensor x, ReduceOp op) {
    check_all_reduce(x, op);
    return x.elements() > 0 ? do_start_all_reduce(x, op) : Request{};
}

Request Communicator::start_reduce_scatter(const Tensor& from, Tensor to) {
    check_reduce_scatter(from, to);
    return to.elements() > 0 ? do_start_reduce_scatter(from, to) : Request{};
}

Request Communicator::start_all_gather(const Tensor& from, Tensor to) {
    check_all_gather(from, to);
    return from.elements() > 0 ? do_start_all_gather(from, to) : Request{};
}

Request Communicator::do_start_all_reduce(Tensor x, ReduceOp op) {
    do_all_reduce(x, op);
    return {};
}

Request Communicator::do_start_reduce_scatter(const Tensor& from, Tensor to) {
    do_reduce_scatter(from, to);
    return {};
}

Request Communicator::do_start_all_gather(const Tensor& from, Tensor to) {
    do_all_gather(from, to);
    return {};
}

void Communicator::broadcast(Tensor x, int root) {
    check_defined(x, "broadcast", name_);
    TRIREME_ASSERT(root >= 0 && root < size(), "broadcast from rank ", root, " in the ", name_, " of ",
                   size(), " ranks");
    if (x.elements() > 0)
        do_broadcast(x, root);
}

Request Communicator::send(const Tensor& x, int to, int channel) {
    check_defined(x, "send", name_);
    TRIREME_ASSERT(to >= 0 && to < size() && to != rank_, "send from rank ", rank_, " to rank ", to,
                   " in the ", name_, " of ", size(), " ranks");
    TRIREME_ASSERT(channel >= 0 && channel <= kMaxChannel, "channel ", channel);
    return do_send(x, to, channel);
}

Request Communicator::receive(Tensor x, int from, int channel) {
    check_defined(x, "receive", name_);
    TRIREME_ASSERT(from >= 0 && from < size() && from != rank_, "receive on rank ", rank_, " from rank ",
                   from, " in the ", name_, " of ", size(), " ranks");
    TRIREME_ASSERT(channel >= 0 && channel <= kMaxChannel, "channel ", channel);
    return do_receive(x, from, channel);
}

void Communicator::wait(Request& request) {
    if (request.pending())
        do_wait(request);
    request = {};
}

} // namespace trireme::comm
