// Tensors in GPU memory over NCCL; made from the MPI communicator of the same ranks, over which the unique
// ids travel.
//
// Order: before a transfer the stream of this communicator waits for what the compute stream has been given
// so far, and the compute stream waits for the result of a blocking collective at once, for that of a message
// or a started collective when its request is waited for. The host never waits.
//
// Messages go between neighbours on a ring, forward (even channels) from r to r + 1 and backward (odd
// channels) from r to r - 1. Each of these directed pairs has a communicator and a stream of its own, so that
// a receive posted ahead holds up nothing; on one of them receives must be posted in the order of the sends.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/cuda_backend.hpp"
#include "comm/mpi/check.hpp"
#include "comm/nccl/check.hpp"
#include "comm/nccl/peer_copies.hpp"
#include "trireme/comm/communicator.hpp"
#include "trireme/comm/runtime.hpp"

namespace trireme::comm {

// What a group is used for: messages need a lane for each directed pair of neighbours.
enum class Use : std::uint8_t { collectives, messages };

class NcclCommunicator final : public Communicator {
  public:
    // Collective over `comm`; blocks until all ranks have come.
    NcclCommunicator(std::string name, MpiComm comm, backend::CudaBackend& backend, backend::StreamRole role,
                     Use use);
    ~NcclCommunicator() override;

  private:
    static constexpr std::int64_t kProbeBytes = ProcessGroups::kProbeBytes;
    struct Lane {
        NcclComm comm; // two ranks: 0 sends, 1 receives
        cudaStream_t stream = nullptr;
    };
    struct Slot {
        cudaEvent_t done = nullptr;
        bool taken = false;
    };

    void do_all_reduce(Tensor x, ReduceOp op) override;
    void do_reduce_scatter(const Tensor& from, Tensor to) override;
    void do_all_gather(const Tensor& from, Tensor to) override;
    void do_broadcast(Tensor x, int root) override;
    Request do_send(const Tensor& x, int to, int channel) override;
    Request do_receive(Tensor x, int from, int channel) override;
    void do_wait(Request& request) override;
    Request do_start_all_reduce(Tensor x, ReduceOp op) override;
    Request do_start_reduce_scatter(const Tensor& from, Tensor to) override;
    Request do_start_all_gather(const Tensor& from, Tensor to) override;
    void do_register_buffers(std::span<const Tensor> buffers) override;
    void do_release_buffers() override;
    std::string transport() const override;
    void do_abandon() override;

    void connect_lanes();
    // By copies where they are served, else by NCCL.
    ncclResult_t enqueue_all_reduce(const Tensor& x, ReduceOp op);
    ncclResult_t enqueue_reduce_scatter(const Tensor& from, const Tensor& to);
    ncclResult_t enqueue_all_gather(const Tensor& from, const Tensor& to);
    bool copies() const { return copies_ && copies_->ready(); }
    // Runs call() between the two waits described above.
    template <class Call>
    void collective(const char* what, const Call& call);
    // Runs call() on `stream` after what the compute stream has been given; the request stands for its end.
    template <class Call>
    Request start(const char* what, cudaStream_t stream, ncclComm_t comm, const Call& call);
    std::int32_t take_slot();
    Lane& lane(int channel, bool sends);
    void check_peers(const char* what);

    MpiComm mpi_;
    backend::CudaBackend& backend_;
    backend::StreamRole role_;
    const char* lasting_name_;
    NcclComm comm_;
    std::unique_ptr<PeerCopies> copies_; // of registered buffers, if ranks are few enough
    std::byte* probe_ = nullptr;         // [kProbeBytes]: what first messages carry
    Lane lanes_[4];                      // forward: sends, receives; backward: sends, receives
    std::vector<Slot> slots_;            // as many as were ever in flight
};

} // namespace trireme::comm
