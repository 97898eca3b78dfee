// Tensors over MPI in host memory; the reference of NCCL. Private to comm/mpi.
//
// Sums: every rank's contribution to a piece is brought to the rank that adds it, which adds in rank order.
//   direct (two ranks, or little data): everybody gets all contributions and adds all of them itself
//   split: rank p adds part p of the piece, then all parts are gathered
// Both give the same bits, because each element sees the same additions. Pieces have the size of the scratch
// memory, which is taken once. All but the direct way is collective_queue.hpp's, started or blocking.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "comm/mpi/check.hpp"
#include "comm/mpi/collective_queue.hpp"
#include "comm/mpi/progress.hpp"
#include "trireme/backend/backend.hpp"
#include "trireme/comm/communicator.hpp"

namespace trireme::comm {

struct MpiLimits {
    std::int64_t scratch_bytes = 0; // 0: MpiCommunicator::scratch_bytes(size)
    std::int64_t direct_bytes = std::int64_t{256}
                                << 10; // contributions of all ranks together that are added directly
    std::int64_t message_bytes = std::int64_t{256} << 20; // largest single message
};

class MpiCommunicator final : public Communicator {
  public:
    MpiCommunicator(std::string name, MpiComm comm, memory::Allocator& allocator,
                    std::shared_ptr<MpiProgress> progress = std::make_shared<MpiProgress>(),
                    const MpiLimits& limits = {});
    ~MpiCommunicator() override;

    static std::int64_t scratch_bytes(int size);

  private:
    static constexpr int kSlots = 256;   // transfers in flight
    static constexpr int kMessages = 32; // of one transfer
    struct Slot {
        MPI_Request requests[kMessages];
        int messages = 0;
        int peer = -1;
        const char* what = nullptr;
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
    void do_progress() override;

    void all_reduce_direct(const Tensor& x, ReduceOp op);
    template <class Start>
    Request start(const Tensor& x, int peer, const char* what, Start start_message);

    MpiComm comm_;
    memory::Allocator& allocator_;
    MpiLimits limits_;
    const char* lasting_name_;
    std::byte* scratch_;
    std::shared_ptr<MpiProgress> progress_; // of all groups of a layout
    std::optional<CollectiveQueue> queue_;
    std::vector<const std::byte*> contributions_; // [size]
    std::vector<Slot> slots_;
    int next_slot_ = 0;
};

} // namespace trireme::comm
