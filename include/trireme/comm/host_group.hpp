// The control plane: small host values among the ranks of a group, always over MPI (or one rank alone). Used
// to agree, to collect what a person should see and to open files together; never in the inner loop of a
// step.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/error.hpp"
#include "trireme/comm/communicator.hpp"

namespace trireme::comm {

enum class Ballot : std::uint8_t { no, yes };

// Votes taken in passing: each rank votes in round after round and learns, `lag` rounds later, whether any
// rank said yes, so that ranks which are a few rounds apart do not wait for each other.
//
//     lag 2, rank 1 says yes in round 3: on every rank the calls for rounds 0 to 4 return false, that for 5
//     true
class RollingVote {
  public:
    virtual ~RollingVote() = default;
    // The next round, from 0 on. True: there was a yes; this round is not taken any more. Collective over the
    // group in the sense that every rank must vote until it gets true or calls finish() after the same round.
    virtual bool vote(Ballot ballot) = 0;
    // Waits for the rounds whose outcome nobody asked for; then it starts anew with round 0.
    virtual void finish() = 0;
};

class HostGroup {
  public:
    virtual ~HostGroup() = default;
    virtual int rank() const = 0;
    virtual int size() const = 0;
    virtual const std::vector<int>& world_ranks() const = 0;
    virtual void barrier() = 0;
    // Any bytes, of any length on each rank; element r is rank r's.
    virtual std::vector<std::string> all_gather(const std::string& bytes) = 0;
    virtual std::string broadcast(const std::string& bytes, int root) = 0;
    // Element by element, in rank order.
    virtual void all_reduce(std::span<double> values, ReduceOp op) = 0;
    // lag >= 1. Collective over the group, which must outlive it.
    virtual std::unique_ptr<RollingVote> make_vote(int lag) = 0;
};

// One rank alone, without MPI.
std::unique_ptr<HostGroup> make_self_host_group(int world_rank = 0);

// Runs `work` on every rank of the group and makes the failure of any the failure of all: if it throws Error
// somewhere, every rank throws the Error of the lowest failing rank, with the ranks and hosts that failed
// added to its details (left out if all failed alike). Collective over the group: call it wherever something
// can fail on one rank before others would wait for it. The Error thrown carries an Agreement, from which
// Runtime::report() sees who prints and whether all ranks leave in order.
void agree(HostGroup& group, const std::function<void()>& work);

// The same, but hands the common Error back, for work that the program can do without. Nothing: it went well
// on all.
std::optional<Error> attempt(HostGroup& group, const std::function<void()>& work);

} // namespace trireme::comm
