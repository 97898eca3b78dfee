// The facts of a node: what its kernel says below /sys and /proc, its limits, its GPUs. Private to the layer.
#pragma once

#include <filesystem>

#include "trireme/cluster/facts.hpp"

namespace trireme::cluster {

// Where the kernel's files are: /sys and /proc, or recorded trees. TRIREME_SYSFS_ROOT names a tree for /sys.
struct Roots {
    std::filesystem::path sys = "/sys", proc = "/proc";
};
Roots roots_of_this_machine();

// "interface.NAME.": state, mtu, mbits (if the kernel knows).
void read_interfaces(const Roots& roots, Facts& facts);
// "port.DEVICE:NUMBER.": state, physical, gbits, link (InfiniBand or Ethernet), roce_gid (index of the RoCE
// v2 identifier of an Ethernet port, or "none"), numa.
void read_ports(const Roots& roots, Facts& facts);
// "gpu.N.nic": the InfiniBand or RoCE device nearest by PCI, and how near: "mlx5_0 (same switch)". After both
// are read.
void pair_gpus_with_ports(const Roots& roots, Facts& facts);
// cpu, cores, memory_bytes, memory_available_bytes.
void read_processor(const Roots& roots, Facts& facts);
// memlock_bytes (-1: unlimited), shm_bytes, shm_free_bytes.
void read_limits(Facts& facts);

// "gpu.N.": name, pci, memory_bytes, ecc_uncorrected, throttle, nvlinks_up, nvlinks_down; version.driver,
// driver_cuda (the newest CUDA that it runs). Nothing where there is no NVML library, which comes with the
// driver.
void read_gpus(Facts& facts);

} // namespace trireme::cluster
