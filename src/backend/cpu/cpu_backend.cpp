// The host as a device: its memory, its threads, and streams that are always done because every call is.
#include "trireme/backend/backend.hpp"

#include <cstring>
#include <utility>

#include "backend/cpu/gemm.hpp"
#include "backend/cpu/operations.hpp"

namespace trireme::backend {
namespace {

void copy_bytes(const Tensor& from, const Tensor& to) {
    if (from.bytes() != to.bytes())
        throw Error(
            ErrorCategory::internal, "copy between host and device: the sizes differ",
            {concat("from ", from.shape().text(), " ", name(from.type()), ", ", from.bytes(), " bytes"),
             concat("to ", to.shape().text(), " ", name(to.type()), ", ", to.bytes(), " bytes")});
    if (from.bytes() > 0)
        std::memmove(to.data(), from.data(), static_cast<std::size_t>(from.bytes()));
}

class CpuBackend final : public Backend {
  public:
    explicit CpuBackend(int threads) : pool_(threads), operations_(pool_, memory_) { use_one_blas_thread(); }

    void* allocate(std::int64_t bytes) override { return memory_.allocate(bytes); }
    void release(void* data, std::int64_t bytes) noexcept override { memory_.release(data, bytes); }
    void reserve_scratch(std::int64_t bytes) override { operations_.reserve_scratch(bytes); }
    int threads() const override { return pool_.threads(); }
    std::int64_t allocated_bytes() const override { return memory_.allocated_bytes(); }
    std::int64_t allocations() const override { return memory_.allocations(); }

    std::string description() const override {
        return concat("CPU, ", pool_.threads(), pool_.threads() == 1 ? " thread, " : " threads, ",
                      blas_description());
    }

    Operations& operations(StreamRole) override { return operations_; }
    Event record(StreamRole) override { return {0}; }
    void wait(StreamRole, Event) override {}
    void synchronize(StreamRole) override {}
    void copy_to_host(const Tensor& from, Tensor to) override { copy_bytes(from, to); }
    void copy_to_device(const Tensor& from, Tensor to) override { copy_bytes(from, to); }

  private:
    HostMemory memory_; // outlives what counts in it
    ThreadPool pool_;
    CpuOperations operations_;
};

} // namespace

std::unique_ptr<Backend> make_cpu_backend(int threads) {
    if (threads < 1)
        throw Error(ErrorCategory::usage, concat("a CPU backend needs at least 1 thread, not ", threads));
    return std::make_unique<CpuBackend>(threads);
}

} // namespace trireme::backend
