// Groups whose members do not exist: they move nothing and tell what they would move. With the dry backend
// they let a rank of any layout of any number of ranks be planned by a single process.
#pragma once

#include "trireme/comm/communicator.hpp"
#include "trireme/comm/runtime.hpp"

namespace trireme::comm {

enum class Transfer : std::uint8_t { all_reduce, reduce_scatter, all_gather, broadcast, send };

class TrafficObserver {
  public:
    virtual ~TrafficObserver() = default;
    // bytes: of the whole tensor (reduce-scatter and all-gather: of all ranks' parts together).
    virtual void traffic(const Communicator& group, Transfer kind, std::int64_t bytes) = 0;
};

// `observer` may be null.
std::unique_ptr<Communicator> make_dry_communicator(std::string name, std::vector<int> world_ranks, int rank,
                                                    TrafficObserver* observer);
// All groups of the rank at these coordinates; without a world and a stage group.
ProcessGroups make_dry_groups(const topology::Grid& grid, const topology::Coordinates& at,
                              TrafficObserver* observer);

} // namespace trireme::comm
