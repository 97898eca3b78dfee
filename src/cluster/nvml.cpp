// GPUs as NVIDIA's management library sees them.
#include "management_library.hpp"

#include <array>

#include "node.hpp"
#include "trireme/base/error.hpp"

namespace trireme::cluster {
namespace {

constexpr int kUncorrected = 1, kVolatile = 0; // NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC
constexpr unsigned kMostLinks = 18;            // NVML_NVLINK_MAX_LINKS

// NVML_CLOCKS_THROTTLE_REASON_*: those that mean trouble. Idle, settings and the power cap by software do
// not.
struct Reason {
    unsigned long long bit;
    const char* words;
};
constexpr std::array kTroubles{Reason{0x8, "hardware slowdown"}, Reason{0x20, "too hot (software limit)"},
                               Reason{0x40, "too hot (hardware limit)"}, Reason{0x80, "power brake"}};

struct PciInfo { // nvmlPciInfo_t
    char legacy_address[16];
    unsigned domain, bus, device, id, subsystem;
    char address[32]; // "00000000:3B:00.0"
};

// sysfs writes "0000:3b:00.0" where NVML writes "00000000:3B:00.0".
std::string sysfs_address(const char* nvml) {
    std::string address(nvml);
    for (char& c : address)
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return address.size() > 12 ? address.substr(address.size() - 12) : address;
}

void read_gpu(const Nvml& nvml, unsigned index, Facts& facts) {
    NvmlDevice device = nullptr;
    const std::string prefix = concat("gpu.", index, ".");
    if (!nvml.call("nvmlDeviceGetHandleByIndex_v2", index, &device)) {
        facts.set(prefix + "name", std::string("does not answer"));
        return;
    }
    char name[96] = {};
    if (nvml.call("nvmlDeviceGetName", device, &name[0], 96U))
        facts.set(prefix + "name", std::string(name));
    PciInfo pci{};
    if (nvml.call("nvmlDeviceGetPciInfo_v3", device, &pci))
        facts.set(prefix + "pci", sysfs_address(pci.address));
    NvmlMemory memory{};
    if (nvml.call("nvmlDeviceGetMemoryInfo", device, &memory))
        facts.set(prefix + "memory_bytes", static_cast<std::int64_t>(memory.total));
    unsigned long long errors = 0;
    if (nvml.call("nvmlDeviceGetTotalEccErrors", device, kUncorrected, kVolatile, &errors))
        facts.set(prefix + "ecc_uncorrected", static_cast<std::int64_t>(errors));
    unsigned long long reasons = 0;
    if (nvml.call("nvmlDeviceGetCurrentClocksThrottleReasons", device, &reasons)) {
        std::string words;
        for (const Reason& trouble : kTroubles)
            if ((reasons & trouble.bit) != 0)
                words += concat(words.empty() ? "" : ", ", trouble.words);
        facts.set(prefix + "throttle", words.empty() ? "no" : words);
    }
    std::int64_t up = 0, down = 0;
    for (unsigned link = 0; link < kMostLinks; ++link) {
        int active = 0;
        if (nvml.call("nvmlDeviceGetNvLinkState", device, link, &active))
            (active != 0 ? up : down) += 1;
    }
    if (up + down > 0) {
        facts.set(prefix + "nvlinks_up", up);
        facts.set(prefix + "nvlinks_down", down);
    }
}

} // namespace

void read_gpus(Facts& facts) {
    const Nvml nvml;
    unsigned count = 0;
    if (!nvml.ready() || !nvml.call("nvmlDeviceGetCount_v2", &count))
        return;
    char driver[96] = {};
    if (nvml.call("nvmlSystemGetDriverVersion", &driver[0], 96U))
        facts.set("version.driver", std::string(driver));
    int cuda = 0;
    if (nvml.call("nvmlSystemGetCudaDriverVersion_v2", &cuda)) // 13000
        facts.set("driver_cuda", concat(cuda / 1000, ".", cuda % 1000 / 10));
    for (unsigned index = 0; index < count; ++index)
        read_gpu(nvml, index, facts);
}

} // namespace trireme::cluster
