// Cuts one allocation into the tensors of a plan, in the plan's order.
#include "trireme/memory/arena.hpp"

#include <utility>

namespace trireme::memory {

Arena::Arena(const Plan& plan, Allocator& allocator) : allocator_(&allocator), views_(plan.views_) {
    for (const Plan::Entry& entry : plan.entries()) {
        offsets_.push_back(bytes_);
        bytes_ += entry.in_arena ? entry.bytes : 0;
    }
    if (bytes_ > 0)
        data_ = static_cast<std::byte*>(allocator.allocate(bytes_));
}

Arena::Arena(Arena&& other) noexcept
    : allocator_(other.allocator_), data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)), offsets_(std::move(other.offsets_)),
      views_(std::move(other.views_)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
    if (this != &other) {
        std::swap(allocator_, other.allocator_);
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        std::swap(offsets_, other.offsets_);
        std::swap(views_, other.views_);
    }
    return *this;
}

Arena::~Arena() {
    if (data_ != nullptr)
        allocator_->release(data_, bytes_);
}

Tensor Arena::tensor(Item item) const {
    if (item.index < 0)
        return {};
    TRIREME_ASSERT(static_cast<std::size_t>(item.index) < views_.size(), "item ", item.index,
                   " of another plan");
    const Plan::View& view = views_[static_cast<std::size_t>(item.index)];
    return {data_ + offsets_[static_cast<std::size_t>(view.entry)], view.shape, view.type};
}

} // namespace trireme::memory
