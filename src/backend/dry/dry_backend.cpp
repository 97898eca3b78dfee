// Addresses that are never followed.
#include "trireme/backend/dry.hpp"

#include "backend/dry/dry_operations.hpp"
#include "trireme/base/sizes.hpp"

namespace trireme::backend {

DryBackend::DryBackend(Device imitated, int threads, WorkObserver* observer)
    : imitated_(imitated), threads_(threads),
      operations_(std::make_unique<DryOperations>(imitated, observer)) {}

DryBackend::~DryBackend() = default;

std::int64_t DryBackend::scratch_bytes() const {
    return operations_->scratch_bytes() * (imitated_ == Device::cpu ? threads_ : 1);
}

Operations& DryBackend::operations(StreamRole) {
    return *operations_;
}

void* DryBackend::allocate(std::int64_t bytes) {
    void* const data = reinterpret_cast<void*>(next_);
    next_ += static_cast<std::uintptr_t>(round_up(bytes, memory::Plan::kAlignment));
    bytes_ += bytes;
    ++calls_;
    return data;
}

} // namespace trireme::backend
