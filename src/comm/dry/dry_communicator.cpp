// Tells, moves nothing.
#include <algorithm>
#include <utility>

#include "trireme/comm/dry.hpp"

namespace trireme::comm {
namespace {

class DryCommunicator final : public Communicator {
  public:
    DryCommunicator(std::string name, std::vector<int> world_ranks, int rank, TrafficObserver* observer)
        : Communicator(std::move(name), std::move(world_ranks), rank), observer_(observer) {}

  private:
    void tell(Transfer kind, std::int64_t bytes) const {
        if (observer_ != nullptr && size() > 1)
            observer_->traffic(*this, kind, bytes);
    }
    void do_all_reduce(Tensor x, ReduceOp) override { tell(Transfer::all_reduce, x.bytes()); }
    void do_reduce_scatter(const Tensor& from, Tensor) override {
        tell(Transfer::reduce_scatter, from.bytes());
    }
    void do_all_gather(const Tensor&, Tensor to) override { tell(Transfer::all_gather, to.bytes()); }
    void do_broadcast(Tensor x, int) override { tell(Transfer::broadcast, x.bytes()); }
    Request do_send(const Tensor& x, int, int) override {
        tell(Transfer::send, x.bytes());
        return {};
    }
    Request do_receive(Tensor, int, int) override { return {}; }
    void do_wait(Request&) override {}

    TrafficObserver* observer_;
};

} // namespace

std::unique_ptr<Communicator> make_dry_communicator(std::string name, std::vector<int> world_ranks, int rank,
                                                    TrafficObserver* observer) {
    return std::make_unique<DryCommunicator>(std::move(name), std::move(world_ranks), rank, observer);
}

ProcessGroups make_dry_groups(const topology::Grid& grid, const topology::Coordinates& at,
                              TrafficObserver* observer) {
    ProcessGroups groups = ProcessGroups::without_members(grid, at);
    const int rank = grid.rank(at);
    const auto make = [&](const char* name, const std::vector<int>& members) {
        const auto here = static_cast<int>(std::ranges::find(members, rank) - members.begin());
        return make_dry_communicator(name, members, here, observer);
    };
    groups.tensor = make("tensor group", grid.tensor_group(rank));
    groups.key_value = make("key/value group", grid.key_value_group(rank));
    groups.data = make("data group", grid.data_group(rank));
    groups.pipeline = make("pipeline group", grid.pipeline_group(rank));
    if (at.pipeline == 0 || at.pipeline == grid.pipeline - 1)
        groups.embedding = make("embedding group", grid.embedding_group(rank));
    groups.model = make("model group", grid.model_group(rank));
    return groups;
}

} // namespace trireme::comm
