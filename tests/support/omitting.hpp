// A communicator that leaves something out, to show that a comparison sees it.
#pragma once

#include <memory>
#include <utility>

#include "trireme/comm/communicator.hpp"

namespace trireme::test {

// Forwards to another communicator, except for one collective of a step (by number) or one channel of
// transfers.
class Omitting : public comm::Communicator {
  public:
    Omitting(std::unique_ptr<comm::Communicator> inner, int omitted)
        : Communicator(inner->name(), inner->world_ranks(), inner->rank()), inner_(std::move(inner)),
          omitted_(omitted) {}

    void start_step() { calls_ = 0; }
    int calls() const { return calls_; }

  private:
    bool omit() { return calls_++ == omitted_; }
    void do_all_reduce(Tensor x, comm::ReduceOp op) override {
        if (!omit())
            inner_->all_reduce(x, op);
    }
    void do_reduce_scatter(const Tensor& from, Tensor to) override {
        if (!omit())
            inner_->reduce_scatter(from, to);
    }
    void do_all_gather(const Tensor& from, Tensor to) override {
        if (!omit())
            inner_->all_gather(from, to);
    }
    void do_broadcast(Tensor x, int root) override { inner_->broadcast(x, root); }
    comm::Request do_send(const Tensor& x, int to, int channel) override {
        return channel == omitted_ ? comm::Request{} : inner_->send(x, to, channel);
    }
    comm::Request do_receive(Tensor x, int from, int channel) override {
        return channel == omitted_ ? comm::Request{} : inner_->receive(x, from, channel);
    }
    void do_wait(comm::Request& request) override { inner_->wait(request); }

    std::unique_ptr<comm::Communicator> inner_;
    int omitted_;
    int calls_ = 0;
};

} // namespace trireme::test
