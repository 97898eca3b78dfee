// Regions follow each other; one that does not fit before the end of the memory begins at its start.
#include "ring_buffer.hpp"

#include "trireme/base/error.hpp"

namespace trireme::checkpoint {

std::size_t RingBuffer::place_for(std::size_t bytes) const {
    if (taken_.empty())
        return 0;
    const auto position = [&](const std::span<std::byte>& region) {
        return static_cast<std::size_t>(region.data() - memory_.data());
    };
    const std::size_t oldest = position(taken_.front());
    const std::size_t next = position(taken_.back()) + taken_.back().size();
    const bool wrapped = position(taken_.back()) < oldest;
    if (wrapped)
        return next + bytes <= oldest ? next : memory_.size();
    if (next + bytes <= memory_.size())
        return next;
    return bytes <= oldest ? 0 : memory_.size();
}

std::span<std::byte> RingBuffer::take(std::size_t bytes) {
    TRIREME_ASSERT(bytes > 0 && bytes <= memory_.size(), bytes, " bytes of a buffer of ", memory_.size());
    std::unique_lock lock(mutex_);
    std::size_t place = 0;
    given_back_.wait(lock, [&] {
        place = place_for(bytes);
        return place < memory_.size();
    });
    taken_.push_back(std::span(memory_).subspan(place, bytes));
    return taken_.back();
}

void RingBuffer::give_back() {
    {
        const std::scoped_lock lock(mutex_);
        taken_.pop_front();
    }
    given_back_.notify_one();
}

} // namespace trireme::checkpoint
