// The control plane of one rank alone, for tools and tests without MPI.
#include "trireme/comm/host_group.hpp"

namespace trireme::comm {

namespace {

class SelfVote final : public RollingVote {
  public:
    explicit SelfVote(int lag) : lag_(lag) {}
    bool vote(Ballot ballot) override {
        if (first_yes_ >= 0 && round_ >= first_yes_ + lag_)
            return true;
        if (ballot == Ballot::yes && first_yes_ < 0)
            first_yes_ = round_;
        ++round_;
        return false;
    }
    void finish() override {
        round_ = 0;
        first_yes_ = -1;
    }

  private:
    int lag_;
    std::int64_t round_ = 0, first_yes_ = -1;
};

class SelfHostGroup final : public HostGroup {
  public:
    explicit SelfHostGroup(int world_rank) : world_ranks_{world_rank} {}
    int rank() const override { return 0; }
    int size() const override { return 1; }
    const std::vector<int>& world_ranks() const override { return world_ranks_; }
    void barrier() override {}
    std::vector<std::string> all_gather(const std::string& bytes) override { return {bytes}; }
    std::string broadcast(const std::string& bytes, int root) override {
        TRIREME_ASSERT(root == 0, "broadcast from rank ", root, " of a group of one");
        return bytes;
    }
    void all_reduce(std::span<double>, ReduceOp) override {}
    std::unique_ptr<RollingVote> make_vote(int lag) override { return std::make_unique<SelfVote>(lag); }

  private:
    std::vector<int> world_ranks_;
};

} // namespace

std::unique_ptr<HostGroup> make_self_host_group(int world_rank) {
    return std::make_unique<SelfHostGroup>(world_rank);
}

} // namespace trireme::comm
