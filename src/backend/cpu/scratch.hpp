// Memory of the CPU backend, counted: what the arena takes through Backend::allocate, and the backend's own
// scratch, which grows when an operation first meets a larger shape and is then kept, so that a step in
// steady state allocates nothing.
#pragma once

#include <cstdint>
#include <span>

namespace trireme::backend {

class HostMemory {
  public:
    // Zeroed, aligned to 256 bytes (2 MiB for large pieces, so that the kernel can use huge pages).
    void* allocate(std::int64_t bytes);
    void release(void* data, std::int64_t bytes) noexcept;

    std::int64_t allocated_bytes() const { return bytes_; }
    std::int64_t allocations() const { return calls_; }

  private:
    std::int64_t bytes_ = 0;
    std::int64_t calls_ = 0;
};

// One piece of equal size for each worker of the pool. Owns its bytes.
class Scratch {
  public:
    Scratch(HostMemory& memory, int workers) : memory_(memory), workers_(workers) {}
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch();

    // Every worker gets at least this much; called outside parallel_for. What was there is lost.
    void reserve(std::int64_t bytes_per_worker);

    // `count` elements from element `first` of this worker's piece; reserve() has made room.
    template <class T>
    std::span<T> of(int worker, std::int64_t first, std::int64_t count) const {
        return {static_cast<T*>(piece(worker, (first + count) * static_cast<std::int64_t>(sizeof(T)))) +
                    first,
                static_cast<std::size_t>(count)};
    }

  private:
    void* piece(int worker, std::int64_t bytes) const;

    HostMemory& memory_;
    int workers_;
    std::int64_t bytes_per_worker_ = 0;
    void* data_ = nullptr;
};

} // namespace trireme::backend
