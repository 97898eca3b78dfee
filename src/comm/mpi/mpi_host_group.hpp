// The control plane over MPI. Private to comm/mpi.
#pragma once

#include "comm/mpi/check.hpp"

namespace trireme::comm {

class MpiHostGroup final : public HostGroup {
  public:
    MpiHostGroup(const std::string& name, MpiComm comm);
    int rank() const override { return rank_; }
    int size() const override { return static_cast<int>(world_ranks_.size()); }
    const std::vector<int>& world_ranks() const override { return world_ranks_; }
    void barrier() override;
    std::vector<std::string> all_gather(const std::string& bytes) override;
    std::string broadcast(const std::string& bytes, int root) override;
    void all_reduce(std::span<double> values, ReduceOp op) override;
    std::unique_ptr<RollingVote> make_vote(int lag) override;

    MPI_Comm comm() const { return comm_.get(); }

  private:
    const char* name_;
    MpiComm comm_;
    int rank_;
    std::vector<int> world_ranks_;
};

} // namespace trireme::comm
