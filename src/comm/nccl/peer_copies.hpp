// Collectives of a group within one node by the GPUs' copy engines: each rank reads the others' memory, and
// adds where a sum is wanted. Copies take no multiprocessor, so they cost matrix products beside them
// nothing, while the blocks of NCCL's kernels hold up every wave of a product's (docs/performance.md has the
// figures).
//
// How ranks wait for each other: each has a counter for every other rank in its own GPU memory. A round
// writes its number into the others' counters and waits until its own have reached it, in stream order; the
// host never waits. All ranks run the same collectives in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/cuda_backend.hpp"
#include "comm/mpi/check.hpp"
#include "trireme/comm/runtime.hpp"
#include "trireme/tensor/tensor.hpp"

namespace trireme::comm {

class PeerCopies {
  public:
    static constexpr int kMostRanks = ProcessGroups::kMostCopyingRanks;
    // Taken from the backend: counters, and what has been copied here and waits to be added.
    static constexpr std::int64_t kCounterBytes = 4096;
    static constexpr std::int64_t kReceivedBytes = ProcessGroups::kCopyBytes - kCounterBytes;

    // Collective over `comm`, of 2 to kMostRanks ranks. `buffers`: memory that collectives may be asked for,
    // as many as on the other ranks, of the same sizes in the same order; each lies within one allocation.
    // Where not every rank can read every other's memory, nobody does: see ready(), why_not().
    PeerCopies(MPI_Comm comm, const char* group, backend::CudaBackend& backend, cudaStream_t stream,
               std::span<const Tensor> buffers);
    ~PeerCopies();
    PeerCopies(const PeerCopies&) = delete;
    PeerCopies& operator=(const PeerCopies&) = delete;

    bool ready() const { return why_not_.empty(); }
    const std::string& why_not() const { return why_not_; }

    // Whether these are served; all ranks answer alike. Sums: fp32 only.
    bool serves_reduce_scatter(const Tensor& from, const Tensor& to) const;
    bool serves_all_gather(const Tensor& to) const;
    bool serves_all_reduce(const Tensor& x) const;
    // As in Communicator; enqueued on the stream.
    void reduce_scatter(const Tensor& from, const Tensor& to);
    void all_gather(const Tensor& from, const Tensor& to);
    void all_reduce(const Tensor& x);

    // Gives up access to the other ranks' memory; nothing may be in flight.
    void close() noexcept;
    // From the host: nothing waits for another rank any more. What is in flight is worth nothing.
    void abandon();

  private:
    struct Buffer {
        std::byte* mine = nullptr;
        std::int64_t bytes = 0;
        std::vector<std::byte*> theirs; // of each rank, at the same place of the same buffer
    };
    struct Driver { // functions of the driver, which nothing links
        CUresult (*batch)(CUstream, unsigned, CUstreamBatchMemOpParams*, unsigned) = nullptr;
        CUresult (*range)(CUdeviceptr*, std::size_t*, CUdeviceptr) = nullptr;
    };
    std::string look_up_driver();
    std::string open_all(std::span<const Tensor> buffers);
    bool all_agree(std::string& mine);
    const Buffer* find(const Tensor& x) const;
    std::byte* on(int peer, const void* mine, const Buffer& buffer) const;
    void round();
    void copy(void* to, const void* from, std::int64_t bytes);
    void sum_part(const Tensor& from, const Tensor& to);
    void gather_parts(const Tensor& whole);

    MPI_Comm comm_;
    const char* group_;
    backend::CudaBackend& backend_;
    cudaStream_t stream_;
    int rank_ = 0, size_ = 0;
    Driver driver_;
    std::string why_not_;
    std::byte* memory_ = nullptr;                      // counters [rank] of 32 bits, then received parts
    std::vector<std::byte*> counters_;                 // of each rank
    std::vector<Buffer> buffers_;                      // by address
    std::vector<void*> opened_;                        // what must be closed
    std::vector<CUstreamBatchMemOpParams> operations_; // of a round
    std::uint32_t rounds_ = 0;
};

} // namespace trireme::comm
