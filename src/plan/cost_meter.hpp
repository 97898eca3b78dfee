// Turns what dry operations and dry groups tell into seconds on a machine.
#pragma once

#include "trireme/backend/dry.hpp"
#include "trireme/comm/dry.hpp"
#include "trireme/plan/cost.hpp"

namespace trireme::plan {

class CostMeter final : public backend::WorkObserver, public comm::TrafficObserver {
  public:
    CostMeter(const Machine& machine, const Software& software) : machine_(machine), software_(software) {}

    void work(const backend::Work& work) override;
    void traffic(const comm::Communicator& group, comm::Transfer kind, std::int64_t bytes) override;

    // What has been told since the last call.
    struct Reading {
        Seconds seconds;
        double reduction = 0; // reduce-scatter or all-reduce in the data group
        double gather = 0;    // all-gather in the data group
        double other = 0;     // the remaining groups
    };
    Reading take();

    // From a rank to a neighbour in its pipeline group.
    double transfer_seconds(const topology::Grid& grid, const topology::Coordinates& from,
                            double bytes) const;
    // Share of a transfer's time in the group, beside a pass, that the pass loses to it.
    double overlap_loss(const comm::Communicator& group) const;

  private:
    double bandwidth(const std::vector<int>& world_ranks, int world_rank) const; // bytes per second
    double latency(const std::vector<int>& world_ranks) const;
    int node(int world_rank) const { return world_rank / static_cast<int>(machine_.gpus_per_node); }
    double stored_attention(const backend::Work& work) const;

    const Machine& machine_;
    const Software& software_;
    Reading reading_;
};

} // namespace trireme::plan
