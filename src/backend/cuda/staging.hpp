// Pinned host memory through which data reach the device without the host waiting for the device: the bytes
// are copied into the next of a few slots and the transfer is enqueued; a slot is reused when its last
// transfer is done.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>

namespace trireme::backend {

class Staging {
  public:
    Staging();
    ~Staging();
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;

    // `from` may be overwritten when this returns; `to` is written in the order of the stream.
    void to_device(const void* from, void* to, std::int64_t bytes, cudaStream_t stream);

  private:
    static constexpr std::int64_t kSlotBytes = std::int64_t{4} << 20;
    static constexpr std::size_t kSlots = 4;

    std::byte* data_ = nullptr; // [kSlots, kSlotBytes]
    std::array<cudaEvent_t, kSlots> done_{};
    std::size_t next_ = 0;
};

} // namespace trireme::backend
