// One GPU as a backend. Private to backend/cuda and comm/nccl, which enqueues on its streams.
#pragma once

#include <array>
#include <cstddef>
#include <cuda_runtime_api.h>
#include <memory>
#include <vector>

#include "backend/cuda/operations.hpp"
#include "backend/cuda/staging.hpp"
#include "trireme/backend/backend.hpp"

namespace trireme::backend {

class CudaBackend final : public Backend {
  public:
    CudaBackend(int device, SumOrder sums);
    ~CudaBackend() override;
    CudaBackend(const CudaBackend&) = delete;
    CudaBackend& operator=(const CudaBackend&) = delete;

    void* allocate(std::int64_t bytes) override;
    void reserve_scratch(std::int64_t bytes) override {
        operations_[static_cast<std::size_t>(StreamRole::compute)]->reserve_scratch(bytes);
    }
    void release(void* data, std::int64_t bytes) noexcept override;
    std::optional<std::int64_t> available_bytes() const override;
    std::int64_t allocated_bytes() const override { return allocated_bytes_; }
    std::int64_t allocations() const override { return allocations_; }

    std::string description() const override;
    Device device() const override { return Device::cuda; }
    std::string pci_address() const override;
    Operations& operations(StreamRole role) override;
    Event record(StreamRole role) override;
    void wait(StreamRole role, Event event) override;
    void synchronize(StreamRole role) override;
    TimeMark mark() override;
    double seconds_between(TimeMark from, TimeMark to) override;
    void forget_marks() override { next_mark_ = 0; }
    void push_range(const char* name) override;
    void pop_range() override;
    void copy_to_host(const Tensor& from, Tensor to) override;
    void copy_to_device(const Tensor& from, Tensor to) override;
    HostCopy start_copy_to_host(const Tensor& from) override;
    void finish_copy_to_host(const HostCopy& copy, Tensor to) override;

    void start_tuning() override;
    std::string end_tuning() override;
    void use_tuned(std::string_view choices) override;

    cudaStream_t stream(StreamRole role) const { return streams_[static_cast<std::size_t>(role)]; }

  private:
    static constexpr std::size_t kEvents = 4096; // reused in a ring: far more than a step has open

    int device_;
    std::array<cudaStream_t, kStreamRoles> streams_{};
    std::vector<cudaEvent_t> events_;
    std::size_t next_event_ = 0;
    std::vector<cudaEvent_t> marks_; // grows to what a step needs
    std::size_t next_mark_ = 0;
    std::int64_t allocated_bytes_ = 0;
    std::int64_t allocations_ = 0;
    std::array<std::unique_ptr<CudaOperations>, kStreamRoles> operations_;
    std::unique_ptr<Staging> staging_;
    // Host copies under way, used in turn.
    struct HostCopySlot {
        std::byte* bytes = nullptr; // [HostCopy::kMostBytes], pinned
        cudaEvent_t done = nullptr;
        std::int64_t taken_bytes = 0; // 0: free
    };
    std::array<HostCopySlot, 4> host_copies_;
    std::size_t next_host_copy_ = 0;
};

} // namespace trireme::backend
