// A device as the rest of the program sees it: memory that is counted, streams by role, events that order
// them, and the operations of ops.hpp. The CPU backend is always built; a CUDA build holds both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "trireme/backend/ops.hpp"
#include "trireme/memory/arena.hpp"
#include "trireme/tensor/tensor.hpp"

namespace trireme::backend {

// What a stream is for. On the CPU all are the calling thread: work is done when the call returns.
enum class StreamRole : std::uint8_t {
    compute,
    tensor,
    gradient_reduction,
    parameter_gather,
    pipeline,
    copy
};
inline constexpr int kStreamRoles = 6;

enum class Device : std::uint8_t { cpu, cuda };

// A point in a stream's work; cheap to copy.
struct Event {
    std::int32_t index = -1;
};

// A point in time of the compute stream's work.
struct TimeMark {
    std::int64_t value = 0;
};

// A copy of a few bytes to the host that is under way.
struct HostCopy {
    static constexpr std::int64_t kMostBytes = 16;
    std::int64_t number = 0;                                             // of the device
    std::array<std::byte, static_cast<std::size_t>(kMostBytes)> bytes{}; // where nothing had to be waited for
};

class Backend : public memory::Allocator {
  public:
    virtual std::string description() const = 0; // "CPU, 2 threads, OpenBLAS 0.3.21 (Haswell)"

    virtual Device device() const { return Device::cpu; }
    // Of the GPU, as its driver names it ("0000:3B:00.0"); "" on a CPU.
    virtual std::string pci_address() const { return ""; }

    // Operations enqueued on the stream of that role. The reference lives as long as the backend.
    virtual Operations& operations(StreamRole role) = 0;
    Operations& compute() { return operations(StreamRole::compute); }

    virtual Event record(StreamRole role) = 0;
    virtual void wait(StreamRole role, Event event) = 0; // the stream waits, not the host
    virtual void synchronize(StreamRole role) = 0;       // the host waits

    // Marks the point that the compute stream has reached when all that was enqueued before is done; cheap.
    // seconds_between needs both to be reached (synchronize). forget_marks makes earlier ones void.
    virtual TimeMark mark();
    virtual double seconds_between(TimeMark from, TimeMark to);
    virtual void forget_marks() {}
    // Named, nested ranges for the device's own profiler; nothing where there is none.
    virtual void push_range(const char*) {}
    virtual void pop_range() {}

    // Between host and device memory; equal bytes. Returns when `to` may be read and `from` overwritten. To
    // the device from any thread, one at a time.
    virtual void copy_to_host(const Tensor& from, Tensor to) = 0;
    virtual void copy_to_device(const Tensor& from, Tensor to) = 0;
    // The same for at most HostCopy::kMostBytes, in two halves: what the compute stream will have left in
    // `from` once it has done all that was enqueued before, and the host's wait for it. Each start has its
    // finish, and few are under way at once. Main thread.
    virtual HostCopy start_copy_to_host(const Tensor& from);
    virtual void finish_copy_to_host(const HostCopy& copy, Tensor to);

    // Between start and end, operations may compute many times over to find the fastest way for each shape:
    // what they write is worth nothing then. Ends with what was found, as lines of text, for use_tuned() of
    // other ranks and later runs. A backend with nothing to find returns no text.
    virtual void start_tuning() {}
    virtual std::string end_tuning() { return {}; }
    virtual void use_tuned(std::string_view) {}

    // Takes what operations need beside their tensors, as planned (DryBackend::scratch_bytes()), so that no
    // step does. What is needed beyond that is taken when it is met.
    virtual void reserve_scratch(std::int64_t) {}
    // What allocate() could still hand out, where the device can tell.
    virtual std::optional<std::int64_t> available_bytes() const { return std::nullopt; }
    virtual int threads() const { return 1; } // that share the loops of an operation
    // Whether nothing is computed and tensors point nowhere (dry.hpp).
    virtual bool dry() const { return false; }

    // What allocate() has handed out and not got back, and how often it was called.
    virtual std::int64_t allocated_bytes() const = 0;
    virtual std::int64_t allocations() const = 0;
};

// threads: for this rank's loops and matrix products; at least 1.
std::unique_ptr<Backend> make_cpu_backend(int threads);

// Whether the bits of a run come again in the next one. cuda: free lets cuDNN's attention gradient add by
// atomics; all other sums stay fixed.
enum class SumOrder : std::uint8_t { fixed, free };

// What a run asks for.
struct BackendSetup {
    Device device = Device::cpu;
    int threads = 1;    // cpu: as for make_cpu_backend
    int local_rank = 0; // cuda: among the ranks of this node; it chooses the GPU
    SumOrder sums = SumOrder::fixed;
};

bool has_cuda(); // whether this build can make the CUDA backend

// Throws Error (usage) for a device that this build lacks, Error (device) if there is no usable GPU.
std::unique_ptr<Backend> make_backend(const BackendSetup& setup);

} // namespace trireme::backend
