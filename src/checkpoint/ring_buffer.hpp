// A fixed piece of host memory from which regions are taken and given back in the same order: by one thread
// that fills them and one that empties them. Nothing is allocated after it was made.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

namespace trireme::checkpoint {

class RingBuffer {
  public:
    explicit RingBuffer(std::int64_t bytes) : memory_(static_cast<std::size_t>(bytes)) {}

    std::int64_t bytes() const { return static_cast<std::int64_t>(memory_.size()); }
    // `bytes` in one piece, at most all; waits until earlier regions have been given back. Only one thread
    // takes.
    std::span<std::byte> take(std::size_t bytes);
    // Gives back the region that was taken first.
    void give_back();

  private:
    // Where `bytes` would fit now; memory_.size() if nowhere.
    std::size_t place_for(std::size_t bytes) const;

    std::vector<std::byte> memory_;
    std::mutex mutex_;
    std::condition_variable given_back_;
    std::deque<std::span<std::byte>> taken_; // oldest first
};

} // namespace trireme::checkpoint
