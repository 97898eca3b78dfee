// The one allocation of a run, cut as planned. Owns the bytes; tensors from it must not outlive it.
#pragma once

#include <memory>
#include <vector>

#include "trireme/memory/plan.hpp"

namespace trireme::memory {

// Where bytes come from; backends implement it (host memory, device memory) and count what they hand out.
class Allocator {
  public:
    virtual ~Allocator() = default;
    // Zeroed, aligned to Plan::kAlignment. Throws Error (device) that names the size when there is not
    // enough.
    virtual void* allocate(std::int64_t bytes) = 0;
    virtual void release(void* data, std::int64_t bytes) noexcept = 0;
};

class Arena {
  public:
    Arena(const Plan& plan, Allocator& allocator);
    Arena(Arena&& other) noexcept;
    Arena& operator=(Arena&& other) noexcept;
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    ~Arena();

    Tensor tensor(Item item) const; // undefined for a default Item
    std::int64_t bytes() const { return bytes_; }

  private:
    Allocator* allocator_ = nullptr;
    std::byte* data_ = nullptr;
    std::int64_t bytes_ = 0;
    std::vector<std::int64_t> offsets_; // of entries
    std::vector<Plan::View> views_;
};

} // namespace trireme::memory
