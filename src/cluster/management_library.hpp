// NVIDIA's management library while it is open. It comes with the driver, so it is loaded at run time and
// only if it is there: the program starts on nodes without a driver. The few declarations are ours; the
// numbers are those of NVML's published interface, which is stable.
#pragma once

#include <dlfcn.h>

namespace trireme::cluster {

using NvmlDevice = void*;

struct NvmlMemory { // nvmlMemory_t
    unsigned long long total, free, used;
};

class Nvml {
  public:
    Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
        if (library_ != nullptr)
            ready_ = call("nvmlInit_v2");
    }
    ~Nvml() {
        if (ready_)
            call("nvmlShutdown");
        if (library_ != nullptr)
            dlclose(library_);
    }
    Nvml(const Nvml&) = delete;
    Nvml& operator=(const Nvml&) = delete;

    bool ready() const { return ready_; }
    // Whether the function is there and succeeded.
    template <class... Arguments>
    bool call(const char* name, Arguments... arguments) const {
        constexpr int kSuccess = 0;
        auto* function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library_, name));
        return function != nullptr && function(arguments...) == kSuccess;
    }

  private:
    void* library_;
    bool ready_ = false;
};

} // namespace trireme::cluster
