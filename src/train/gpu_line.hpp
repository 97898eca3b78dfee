// The line of --log-gpu: what the GPUs of all ranks do.
#pragma once

#include <string>
#include <vector>

#include "trireme/cluster/gpu_monitor.hpp"
#include "trireme/comm/host_group.hpp"

namespace trireme::train {

// " gpu (mean of ranks; the farthest): memory 117.2 GiB of 139.8 (118.0, rank 3 on node2) | ..." of the
// readings [rank]: of memory, power and temperature the highest, of use and clock the lowest. What no driver
// tells is left out.
std::string format_gpus(const std::vector<cluster::GpuReading>& readings,
                        const std::vector<std::string>& hosts);

// Collective: the line of all ranks' present readings, on every rank.
std::string gpu_line(const cluster::GpuMonitor& monitor, comm::HostGroup& world,
                     const std::vector<std::string>& hosts);

} // namespace trireme::train
