// Plain host memory as an Allocator and as a Backend without operations, for tests of communication.
#pragma once

#include <cstdlib>
#include <cstring>
#include <vector>

#include "trireme/backend/backend.hpp"

namespace trireme::test {

class HostBackend final : public backend::Backend {
  public:
    void* allocate(std::int64_t bytes) override {
        void* data = std::aligned_alloc(256, static_cast<std::size_t>((bytes + 255) / 256 * 256));
        if (data == nullptr)
            throw Error(ErrorCategory::device, concat("no memory for ", bytes, " bytes"));
        std::memset(data, 0, static_cast<std::size_t>(bytes));
        allocated_bytes_ += bytes;
        ++allocations_;
        return data;
    }
    void release(void* data, std::int64_t bytes) noexcept override {
        std::free(data);
        allocated_bytes_ -= bytes;
    }
    std::string description() const override { return "host memory"; }
    backend::Operations& operations(backend::StreamRole) override {
        throw Error(ErrorCategory::internal, "this backend has no operations");
    }
    backend::Event record(backend::StreamRole) override { return {}; }
    void wait(backend::StreamRole, backend::Event) override {}
    void synchronize(backend::StreamRole) override {}
    void copy_to_host(const Tensor& from, Tensor to) override {
        std::memcpy(to.data(), from.data(), to.bytes());
    }
    void copy_to_device(const Tensor& from, Tensor to) override {
        std::memcpy(to.data(), from.data(), to.bytes());
    }
    std::int64_t allocated_bytes() const override { return allocated_bytes_; }
    std::int64_t allocations() const override { return allocations_; }

  private:
    std::int64_t allocated_bytes_ = 0;
    std::int64_t allocations_ = 0;
};

} // namespace trireme::test
