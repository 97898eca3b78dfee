// Asks NVML for the figures of one device.
#include "trireme/cluster/gpu_monitor.hpp"

#include <limits>

#include "management_library.hpp"
#include "trireme/base/error.hpp"

namespace trireme::cluster {
namespace {

constexpr int kMultiprocessorClock = 1; // NVML_CLOCK_SM
constexpr int kCore = 0;                // NVML_TEMPERATURE_GPU

struct Utilization { // nvmlUtilization_t, percent
    unsigned gpu, memory;
};

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

} // namespace

struct GpuMonitor::Impl {
    Nvml nvml;
    NvmlDevice device = nullptr;
};

GpuMonitor::GpuMonitor(const std::string& pci_address) : impl_(std::make_unique<Impl>()) {
    if (!impl_->nvml.ready())
        throw Error(ErrorCategory::device, "the GPU cannot be watched",
                    {"the driver's libnvidia-ml.so.1 is not here or does not start",
                     "try: nvidia-smi, which needs it too; or leave out --log-gpu"});
    if (!impl_->nvml.call("nvmlDeviceGetHandleByPciBusId_v2", pci_address.c_str(), &impl_->device))
        throw Error(ErrorCategory::device, "the GPU cannot be watched",
                    {concat("the driver's libnvidia-ml.so.1 knows no GPU ", pci_address),
                     "try: leave out --log-gpu"});
}
GpuMonitor::~GpuMonitor() = default;

GpuReading GpuMonitor::read() const {
    const Nvml& nvml = impl_->nvml;
    NvmlDevice device = impl_->device;
    GpuReading reading{kUnknown, kUnknown, kUnknown, kUnknown, kUnknown, kUnknown};
    NvmlMemory memory{};
    if (nvml.call("nvmlDeviceGetMemoryInfo", device, &memory)) {
        reading.used_bytes = static_cast<double>(memory.used);
        reading.all_bytes = static_cast<double>(memory.total);
    }
    Utilization utilization{};
    if (nvml.call("nvmlDeviceGetUtilizationRates", device, &utilization))
        reading.busy_percent = utilization.gpu;
    unsigned value = 0;
    if (nvml.call("nvmlDeviceGetClockInfo", device, kMultiprocessorClock, &value))
        reading.clock_mhz = value;
    if (nvml.call("nvmlDeviceGetPowerUsage", device, &value)) // milliwatts
        reading.watts = value / 1e3;
    if (nvml.call("nvmlDeviceGetTemperature", device, kCore, &value))
        reading.celsius = value;
    return reading;
}

} // namespace trireme::cluster
