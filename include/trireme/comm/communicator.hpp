// Collectives and point-to-point transfers of tensors within one group of ranks. comm/self (one rank),
// comm/mpi and, on GPUs, comm/nccl implement it; MPI is the reference of NCCL. Like the operations, public
// functions check their arguments and then call a private virtual.
//
// A communicator belongs to one stream role: its work is ordered with that stream's. On CPU ranks a call
// returns when the result is there. Sums on CPU ranks run in rank order, so the result does not depend on
// timing, blocking or message size and is bit-equal on all ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/backend/backend.hpp"
#include "trireme/tensor/tensor.hpp"

namespace trireme::comm {

inline constexpr int kMaxChannel = 32000; // channels of send and receive are 0 ... kMaxChannel

enum class ReduceOp : std::uint8_t { sum, max };

// A message or a collective in flight; wait() with the communicator that made it. Default-constructed:
// nothing to wait for. It owns no tensor: those of the call must live, and stay untouched, until wait().
struct Request {
    std::int32_t slot = -1;   // of a message
    std::int64_t number = -1; // of a collective
    bool pending() const { return slot >= 0 || number >= 0; }
};

class Communicator {
  public:
    virtual ~Communicator() = default;

    int rank() const { return rank_; }
    int size() const { return static_cast<int>(world_ranks_.size()); }
    const std::string& name() const { return name_; }                    // "tensor group"
    const std::vector<int>& world_ranks() const { return world_ranks_; } // of the members, in group order

    // BEFORE rank r holds x_r [k]; AFTER every rank holds x_0 + x_1 + ... in that order (or the maximum).
    void all_reduce(Tensor x, ReduceOp op);
    // BEFORE rank r holds from_r [size * k]; AFTER it holds to = part r of the sum [k]. `to` may be that part
    // of `from`.
    void reduce_scatter(const Tensor& from, Tensor to);
    // BEFORE rank r holds from_r [k]; AFTER every rank holds to = from_0, from_1, ... [size * k]. `from` may
    // be its part of `to`.
    void all_gather(const Tensor& from, Tensor to);
    void broadcast(Tensor x, int root);

    // The same collectives with the same bits, finished by wait(); many may be in flight. All ranks of the
    // group start them, and call the blocking ones in between, in the same order. On CPU ranks they move on
    // while this rank waits in any group of its layout, and in progress().
    Request start_all_reduce(Tensor x, ReduceOp op);
    Request start_reduce_scatter(const Tensor& from, Tensor to);
    Request start_all_gather(const Tensor& from, Tensor to);
    void progress() { do_progress(); }

    // Non-blocking; messages between two ranks with the same channel arrive in the order sent.
    Request send(const Tensor& x, int to, int channel);
    Request receive(Tensor x, int from, int channel);
    void wait(Request& request); // resets it

    // Collective over the group, and waits for it. Memory that collectives will be asked for again and again,
    // on all ranks as many buffers of the same sizes in the same order; each is part of one allocation, which
    // lives until release_buffers(). Ranks on one node may then read each other's memory instead of sending.
    void register_buffers(std::span<const Tensor> buffers) { do_register_buffers(buffers); }
    // Collective over the group, when nothing is in flight; afterwards their memory may be freed. Also after
    // no registration.
    void release_buffers() { do_release_buffers(); }
    // By what means registered buffers travel, in words; empty where there is nothing to choose.
    virtual std::string transport() const { return {}; }

    // Ends what is in flight on a GPU without waiting for peers, which may be gone; nothing but destruction
    // may follow. On CPU ranks nothing can end a message of MPI.
    void abandon() { do_abandon(); }

  protected:
    Communicator(std::string name, std::vector<int> world_ranks, int rank);

  private:
    virtual void do_all_reduce(Tensor x, ReduceOp op) = 0;
    virtual void do_reduce_scatter(const Tensor& from, Tensor to) = 0;
    virtual void do_all_gather(const Tensor& from, Tensor to) = 0;
    virtual void do_broadcast(Tensor x, int root) = 0;
    virtual Request do_send(const Tensor& x, int to, int channel) = 0;
    virtual Request do_receive(Tensor x, int from, int channel) = 0;
    virtual void do_wait(Request& request) = 0;
    // Unless overridden: done at once.
    virtual Request do_start_all_reduce(Tensor x, ReduceOp op);
    virtual Request do_start_reduce_scatter(const Tensor& from, Tensor to);
    virtual Request do_start_all_gather(const Tensor& from, Tensor to);
    virtual void do_progress() {}
    virtual void do_register_buffers(std::span<const Tensor>) {}
    virtual void do_release_buffers() {}
    virtual void do_abandon() {}
    void check_all_reduce(const Tensor& x, ReduceOp op) const;
    void check_reduce_scatter(const Tensor& from, const Tensor& to) const;
    void check_all_gather(const Tensor& from, const Tensor& to) const;

    std::string name_;
    std::vector<int> world_ranks_;
    int rank_;
};

// One rank alone, without MPI: every collective is the identity; gather and scatter copy, in host memory or,
// given a backend, in that backend's.
std::unique_ptr<Communicator> make_self_communicator(std::string name, int world_rank = 0,
                                                     backend::Backend* backend = nullptr);

} // namespace trireme::comm
