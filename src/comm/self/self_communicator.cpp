// The group of one rank: sums, maxima and broadcasts leave the tensor as it is; gather and scatter copy.
#include "trireme/comm/communicator.hpp"

#include <cstring>
#include <utility>

namespace trireme::comm {

namespace {

class SelfCommunicator final : public Communicator {
  public:
    SelfCommunicator(std::string name, int world_rank, backend::Backend* backend)
        : Communicator(std::move(name), {world_rank}, 0), backend_(backend) {}

  private:
    void do_all_reduce(Tensor, ReduceOp) override {}
    void do_reduce_scatter(const Tensor& from, Tensor to) override { copy(from, to); }
    void do_all_gather(const Tensor& from, Tensor to) override { copy(from, to); }
    void do_broadcast(Tensor, int) override {}
    // The public functions refuse messages to oneself before they come here.
    Request do_send(const Tensor&, int, int) override { refuse(); }
    Request do_receive(Tensor, int, int) override { refuse(); }
    void do_wait(Request&) override { refuse(); }

    void copy(const Tensor& from, const Tensor& to) {
        if (from.data() == to.data())
            return;
        if (backend_ != nullptr && backend_->device() != backend::Device::cpu)
            backend_->compute().copy(from, to);
        else
            std::memmove(to.data(), from.data(), static_cast<std::size_t>(from.bytes()));
    }
    [[noreturn]] void refuse() const {
        throw Error(ErrorCategory::internal,
                    concat("the ", name(), " has one rank: there is nobody to talk to"));
    }

    backend::Backend* backend_;
};

} // namespace

std::unique_ptr<Communicator> make_self_communicator(std::string name, int world_rank,
                                                     backend::Backend* backend) {
    return std::make_unique<SelfCommunicator>(std::move(name), world_rank, backend);
}

} // namespace trireme::comm
