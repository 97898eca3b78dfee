// A backend that computes nothing. Its memory is addresses that nobody may follow; an operation only tells
// what it would be: how much arithmetic, how many bytes, and how much scratch the real backend would take for
// it. The pieces of a model, bound to it, thus say themselves what a step of theirs is made of: `trireme
// plan` makes its memory and its times of that, and a run plans its scratch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trireme/backend/backend.hpp"

namespace trireme::backend {

enum class WorkKind : std::uint8_t { matmul, attention_forward, attention_gradient, memory };

// One operation.
struct Work {
    WorkKind kind = WorkKind::memory;
    DType type = DType::f32; // of what is multiplied
    double flops = 0;        // of products; attention: what a causal mask leaves
    double bytes = 0;        // read and written, each tensor once
    double scores = 0;       // attention: B H T^2, which a kernel may keep or not
    double length = 0;       // attention: T
    double head_dim = 0;     // attention
};

class WorkObserver {
  public:
    virtual ~WorkObserver() = default;
    virtual void work(const Work& work) = 0;
};

class DryOperations;

class DryBackend final : public Backend {
  public:
    // As the backend of that device with that many threads; `observer` may be null.
    DryBackend(Device imitated, int threads, WorkObserver* observer = nullptr);
    ~DryBackend() override;

    // The most that an operation so far needs beside its tensors, for reserve_scratch() of the real backend.
    std::int64_t scratch_bytes() const;

    std::string description() const override { return "nothing is computed"; }
    Device device() const override { return imitated_; }
    Operations& operations(StreamRole) override;
    Event record(StreamRole) override { return {0}; }
    void wait(StreamRole, Event) override {}
    void synchronize(StreamRole) override {}
    void copy_to_host(const Tensor&, Tensor) override {}
    void copy_to_device(const Tensor&, Tensor) override {}
    int threads() const override { return threads_; }
    bool dry() const override { return true; }

    void* allocate(std::int64_t bytes) override;
    void release(void*, std::int64_t bytes) noexcept override { bytes_ -= bytes; }
    std::int64_t allocated_bytes() const override { return bytes_; }
    std::int64_t allocations() const override { return calls_; }

  private:
    Device imitated_;
    int threads_;
    std::unique_ptr<DryOperations> operations_;
    std::uintptr_t next_ = std::uintptr_t{1} << 40; // an address
    std::int64_t bytes_ = 0, calls_ = 0;
};

} // namespace trireme::backend
