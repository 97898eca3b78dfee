// Copies to the device by way of pinned slots.
#include "backend/cuda/staging.hpp"

#include <algorithm>
#include <cstring>

#include "backend/cuda/check.hpp"

namespace trireme::backend {

Staging::Staging() {
    void* data = nullptr;
    check(cudaMallocHost(&data, static_cast<std::size_t>(kSlots * kSlotBytes)), "pinned host memory");
    data_ = static_cast<std::byte*>(data);
    for (cudaEvent_t& event : done_)
        check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event of a copy");
}

Staging::~Staging() {
    for (const cudaEvent_t event : done_)
        if (event != nullptr)
            cudaEventDestroy(event);
    cudaFreeHost(data_);
}

void Staging::to_device(const void* from, void* to, std::int64_t bytes, cudaStream_t stream) {
    for (std::int64_t first = 0; first < bytes; first += kSlotBytes) {
        const auto count = static_cast<std::size_t>(std::min(kSlotBytes, bytes - first));
        std::byte* const slot = data_ + next_ * static_cast<std::size_t>(kSlotBytes);
        check(cudaEventSynchronize(done_[next_]), "wait for an earlier copy to the device");
        std::memcpy(slot, static_cast<const std::byte*>(from) + first, count);
        check(
            cudaMemcpyAsync(static_cast<std::byte*>(to) + first, slot, count, cudaMemcpyHostToDevice, stream),
            "copy to the device");
        check(cudaEventRecord(done_[next_], stream), "event of a copy");
        next_ = (next_ + 1) % kSlots;
    }
}

} // namespace trireme::backend
