// Aligned host memory and scratch that only grows.
#include "backend/cpu/scratch.hpp"

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>

#include "trireme/base/error.hpp"
#include "trireme/base/sizes.hpp"
#include "trireme/memory/plan.hpp"

namespace trireme::backend {
namespace {
constexpr std::int64_t kHugePageBytes = std::int64_t{2} << 20;
constexpr std::int64_t kAlignment = memory::Plan::kAlignment;
} // namespace

void* HostMemory::allocate(std::int64_t bytes) {
    TRIREME_ASSERT(bytes >= 0, bytes, " bytes asked for");
    const std::int64_t alignment = bytes >= kHugePageBytes ? kHugePageBytes : kAlignment;
    const std::int64_t rounded = round_up(bytes > 0 ? bytes : 1, alignment);
    void* data = std::aligned_alloc(static_cast<std::size_t>(alignment), static_cast<std::size_t>(rounded));
    if (data == nullptr)
        throw Error(ErrorCategory::device, concat("no memory left for ", show_bytes(bytes), " on the host"),
                    {concat("taken by this rank so far: ", show_bytes(bytes_)),
                     "try: fewer ranks on this node, a smaller --micro-batch-size, --recompute-activations"});
    if (alignment == kHugePageBytes) // a hint: where huge pages are off nothing is lost
        (void)madvise(data, static_cast<std::size_t>(rounded), MADV_HUGEPAGE);
    std::memset(data, 0, static_cast<std::size_t>(rounded));
    bytes_ += bytes;
    ++calls_;
    return data;
}

void HostMemory::release(void* data, std::int64_t bytes) noexcept {
    if (data == nullptr)
        return;
    std::free(data);
    bytes_ -= bytes;
}

Scratch::~Scratch() {
    memory_.release(data_, bytes_per_worker_ * workers_);
}

void Scratch::reserve(std::int64_t bytes_per_worker) {
    if (bytes_per_worker <= bytes_per_worker_)
        return;
    memory_.release(data_, bytes_per_worker_ * workers_);
    data_ = nullptr;
    bytes_per_worker_ = 0;
    const std::int64_t rounded = round_up(bytes_per_worker, kAlignment);
    data_ = memory_.allocate(rounded * workers_);
    bytes_per_worker_ = rounded;
}

void* Scratch::piece(int worker, std::int64_t bytes) const {
    TRIREME_ASSERT(worker >= 0 && worker < workers_ && bytes <= bytes_per_worker_, "worker ", worker,
                   " wants ", bytes, " bytes of scratch, reserved ", bytes_per_worker_);
    return static_cast<std::byte*>(data_) + worker * bytes_per_worker_;
}

} // namespace trireme::backend
