// A GPU at work, as NVIDIA's management library (NVML) sees it while a run goes on.
#pragma once

#include <memory>
#include <string>

namespace trireme::cluster {

// NaN where the driver does not tell.
struct GpuReading {
    double used_bytes = 0, all_bytes = 0; // of memory, all processes together
    double busy_percent = 0;              // time with a kernel running, over the driver's last sample
    double clock_mhz = 0;                 // of the multiprocessors
    double watts = 0, celsius = 0;
};

class GpuMonitor {
  public:
    // `pci_address` as Backend::pci_address() says it. Throws Error (device): no NVML, or it does not know
    // the GPU.
    explicit GpuMonitor(const std::string& pci_address);
    ~GpuMonitor();
    GpuMonitor(const GpuMonitor&) = delete;
    GpuMonitor& operator=(const GpuMonitor&) = delete;

    GpuReading read() const; // a fraction of a millisecond; does not wait for the GPU's work

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trireme::cluster
