// Device memory that an operation needs while it runs. It grows at the first step and then stays; everything
// that uses one scratch runs on one stream, so a later operation may overwrite it.
#pragma once

#include <cstdint>

#include "trireme/memory/arena.hpp"

namespace trireme::backend {

class DeviceScratch {
  public:
    explicit DeviceScratch(memory::Allocator& allocator) : allocator_(allocator) {}
    ~DeviceScratch() {
        if (data_ != nullptr)
            allocator_.release(data_, bytes_);
    }
    DeviceScratch(const DeviceScratch&) = delete;
    DeviceScratch& operator=(const DeviceScratch&) = delete;

    // At least `bytes`, aligned to 256; what was there before is lost. Releasing waits for the device.
    void* reserve(std::int64_t bytes) {
        if (bytes > bytes_) {
            if (data_ != nullptr)
                allocator_.release(data_, bytes_);
            data_ = nullptr;
            bytes_ = 0;
            data_ = allocator_.allocate(bytes);
            bytes_ = bytes;
        }
        return data_;
    }
    template <class T>
    T* of(std::int64_t count) {
        return static_cast<T*>(reserve(count * static_cast<std::int64_t>(sizeof(T))));
    }

  private:
    memory::Allocator& allocator_;
    void* data_ = nullptr;
    std::int64_t bytes_ = 0;
};

} // namespace trireme::backend
