// Gathers readings and writes them as people read them.
#include "gpu_line.hpp"

#include <array>
#include <cmath>
#include <cstring>

#include "trireme/base/error.hpp"
#include "trireme/plan/screen.hpp"

namespace trireme::train {
namespace {

using cluster::GpuReading;
using plan::fixed;

constexpr double kGiB = 1024.0 * 1024 * 1024;

struct Column {
    const char* name;
    double GpuReading::*field;
    double unit;
    const char* words; // behind the number
    int decimals;
    bool highest; // is worth naming; else the lowest
};
constexpr std::array kColumns{
    Column{"memory", &GpuReading::used_bytes, kGiB, " GiB", 1, true},
    Column{"busy", &GpuReading::busy_percent, 1, " %", 0, false},
    Column{"clock", &GpuReading::clock_mhz, 1, " MHz", 0, false},
    Column{"power", &GpuReading::watts, 1, " W", 0, true},
    Column{"temperature", &GpuReading::celsius, 1, " C", 0, true},
};

} // namespace

std::string format_gpus(const std::vector<GpuReading>& readings, const std::vector<std::string>& hosts) {
    std::string text = readings.size() > 1 ? " gpu (mean of ranks; the farthest):" : " gpu:";
    bool first = true;
    for (const Column& column : kColumns) {
        double sum = 0, farthest = 0;
        std::size_t known = 0, who = 0;
        for (std::size_t rank = 0; rank < readings.size(); ++rank) {
            const double value = readings[rank].*column.field / column.unit;
            if (std::isnan(value))
                continue;
            if (known++ == 0 || (column.highest ? value > farthest : value < farthest)) {
                farthest = value;
                who = rank;
            }
            sum += value;
        }
        if (known == 0)
            continue;
        text += concat(first ? " " : " | ", column.name, " ",
                       fixed(sum / static_cast<double>(known), column.decimals), column.words);
        if (column.field == &GpuReading::used_bytes && !std::isnan(readings[who].all_bytes))
            text += concat(" of ", fixed(readings[who].all_bytes / kGiB, 1));
        if (readings.size() > 1)
            text += concat(" (", fixed(farthest, column.decimals), ", rank ", who, " on ", hosts[who], ")");
        first = false;
    }
    return first ? text + " the driver tells nothing" : text;
}

std::string gpu_line(const cluster::GpuMonitor& monitor, comm::HostGroup& world,
                     const std::vector<std::string>& hosts) {
    const GpuReading mine = monitor.read();
    std::vector<GpuReading> readings;
    for (const std::string& packed :
         world.all_gather(std::string(reinterpret_cast<const char*>(&mine), sizeof mine))) {
        readings.emplace_back();
        std::memcpy(&readings.back(), packed.data(), sizeof(GpuReading));
    }
    return format_gpus(readings, hosts);
}

} // namespace trireme::train
