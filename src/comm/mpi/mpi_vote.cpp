// Rolling votes: one non-blocking all-reduce of a number a round, on a communicator of their own.
#include <vector>

#include "comm/mpi/mpi_host_group.hpp"
#include "trireme/comm/phase.hpp"

namespace trireme::comm {

namespace {

class MpiVote final : public RollingVote {
  public:
    MpiVote(const char* group, MPI_Comm comm, int lag)
        : group_(group), comm_(duplicate(comm, group)), rounds_(static_cast<std::size_t>(lag)) {
        TRIREME_ASSERT(lag >= 1, "a vote with a lag of ", lag);
    }

    bool vote(Ballot ballot) override {
        Round& round = rounds_[static_cast<std::size_t>(next_) % rounds_.size()]; // was round next_ - lag
        if (is_yes(round))
            return true;
        round.mine = ballot == Ballot::yes ? 1 : 0;
        check_mpi(MPI_Iallreduce(&round.mine, &round.most, 1, MPI_INT, MPI_MAX, comm_.get(), &round.request),
                  "vote", group_);
        ++next_;
        return false;
    }

    void finish() override {
        for (Round& round : rounds_) {
            static_cast<void>(is_yes(round));
            round = Round{};
        }
        next_ = 0;
    }

  private:
    struct Round {
        int mine = 0, most = 0;
        MPI_Request request = MPI_REQUEST_NULL;
    };
    bool is_yes(Round& round) {
        if (round.request != MPI_REQUEST_NULL) {
            const WaitScope waiting("vote", group_);
            check_mpi(MPI_Wait(&round.request, MPI_STATUS_IGNORE), "vote", group_);
        }
        return round.most != 0;
    }

    const char* group_;
    MpiComm comm_;
    std::vector<Round> rounds_; // in flight, by number modulo the lag
    std::int64_t next_ = 0;
};

} // namespace

std::unique_ptr<RollingVote> MpiHostGroup::make_vote(int lag) {
    return std::make_unique<MpiVote>(name_, comm_.get(), lag);
}

} // namespace trireme::comm
