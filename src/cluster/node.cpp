// Reads a node's kernel files.
#include "node.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <sys/resource.h>
#include <sys/statvfs.h>

namespace trireme::cluster {
namespace {

namespace fs = std::filesystem;

// The first line of a small file, without the end of line; "" if it cannot be read (a link that is down has
// no speed).
std::string line_of(const fs::path& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r'))
        line.pop_back();
    return line;
}

std::vector<std::string> entries(const fs::path& directory) {
    std::vector<std::string> names;
    std::error_code missing;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory, missing))
        names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
}

// "4: ACTIVE" -> "ACTIVE"
std::string after_colon(const std::string& text) {
    const std::size_t colon = text.find(": ");
    return colon == std::string::npos ? text : text.substr(colon + 2);
}

// Of an Ethernet port, the identifier that routes over IP (RoCE v2): that of an IPv4 address first, which
// leaves the subnet, else the first that is set.
std::string roce_gid(const fs::path& port) {
    std::vector<int> indices;
    for (const std::string& name : entries(port / "gid_attrs" / "types"))
        indices.push_back(std::atoi(name.c_str()));
    std::ranges::sort(indices);
    std::string first = "none";
    for (const int index : indices) {
        const std::string number = std::to_string(index);
        const std::string gid = line_of(port / "gids" / number);
        const bool is_set = gid.find_first_not_of("0:") != std::string::npos;
        if (!is_set || line_of(port / "gid_attrs" / "types" / number) != "RoCE v2")
            continue;
        if (gid.starts_with("0000:0000:0000:0000:0000:ffff:"))
            return number;
        if (first == "none")
            first = number;
    }
    return first;
}

// The PCI addresses from the root complex down to a device, from the path of its directory:
// /sys/devices/pci0000:00/0000:00:01.0/0000:3b:00.0 -> {pci0000:00, 0000:00:01.0, 0000:3b:00.0}
std::vector<std::string> pci_path(const fs::path& device) {
    std::error_code missing;
    std::vector<std::string> path;
    for (const fs::path& part : fs::canonical(device, missing)) {
        const std::string name = part.string();
        if (!path.empty() || name.starts_with("pci"))
            path.push_back(name);
    }
    return path;
}

struct Nearness {
    int rank; // more is nearer
    const char* words;
};

Nearness nearness(const std::vector<std::string>& a, const std::vector<std::string>& b,
                  const std::string& numa_a, const std::string& numa_b) {
    std::size_t common = 0;
    while (common < std::min(a.size(), b.size()) && a[common] == b[common])
        ++common;
    if (common >= 2)
        return {10 + static_cast<int>(common), "same switch"};
    if (common == 1)
        return {3, "same host bridge"};
    if (!numa_a.empty() && numa_a == numa_b && numa_a != "-1")
        return {2, "same NUMA node"};
    return {1, "another NUMA node"};
}

} // namespace

Roots roots_of_this_machine() {
    Roots roots;
    if (const char* root = std::getenv("TRIREME_SYSFS_ROOT"); root != nullptr && *root != '\0')
        roots.sys = root;
    return roots;
}

void read_interfaces(const Roots& roots, Facts& facts) {
    const fs::path all = roots.sys / "class" / "net";
    for (const std::string& name : entries(all)) {
        const std::string state = line_of(all / name / "operstate"), flags = line_of(all / name / "flags");
        if (flags.empty() && state.empty())
            continue; // bonding_masters: not an interface
        // The loopback and some tunnels have no state of their own: "unknown" is then up if the interface is.
        const bool is_up = (std::strtoul(flags.c_str(), nullptr, 16) & 1U) != 0;
        facts.set("interface." + name + ".state", state == "unknown" ? (is_up ? "up" : "down") : state);
        facts.set("interface." + name + ".mtu", line_of(all / name / "mtu"));
        if (const std::string speed = line_of(all / name / "speed"); !speed.empty() && speed[0] != '-')
            facts.set("interface." + name + ".mbits", speed);
    }
}

void read_ports(const Roots& roots, Facts& facts) {
    const fs::path all = roots.sys / "class" / "infiniband";
    for (const std::string& device : entries(all))
        for (const std::string& number : entries(all / device / "ports")) {
            const fs::path port = all / device / "ports" / number;
            const std::string name = "port." + device + ":" + number + ".";
            const std::string link = line_of(port / "link_layer");
            facts.set(name + "state", after_colon(line_of(port / "state")));
            facts.set(name + "physical", after_colon(line_of(port / "phys_state")));
            std::istringstream rate(line_of(port / "rate")); // "400 Gb/sec (4X NDR)"
            double gbits = 0;
            rate >> gbits;
            facts.set(name + "gbits", gbits);
            facts.set(name + "link", link);
            if (link == "Ethernet")
                facts.set(name + "roce_gid", roce_gid(port));
            facts.set(name + "numa", line_of(all / device / "device" / "numa_node"));
        }
}

void pair_gpus_with_ports(const Roots& roots, Facts& facts) {
    for (const std::string& gpu : facts.members("gpu")) {
        const std::string address = facts.text("gpu." + gpu + ".pci");
        const fs::path device = roots.sys / "bus" / "pci" / "devices" / address;
        const std::vector<std::string> path = pci_path(device);
        Nearness best{0, ""};
        std::string nearest;
        for (const std::string& nic : entries(roots.sys / "class" / "infiniband")) {
            const fs::path other = roots.sys / "class" / "infiniband" / nic / "device";
            const Nearness found =
                nearness(path, pci_path(other), line_of(device / "numa_node"), line_of(other / "numa_node"));
            if (found.rank > best.rank) {
                best = found;
                nearest = nic;
            }
        }
        if (!path.empty() && !nearest.empty())
            facts.set("gpu." + gpu + ".nic", nearest + " (" + best.words + ")");
    }
}

void read_processor(const Roots& roots, Facts& facts) {
    std::ifstream processors(roots.proc / "cpuinfo");
    std::int64_t cores = 0;
    for (std::string line; std::getline(processors, line);) {
        if (line.starts_with("processor"))
            ++cores;
        if (line.starts_with("model name") && !facts.has("cpu"))
            facts.set("cpu", after_colon(line));
    }
    facts.set("cores", cores);
    std::ifstream memory(roots.proc / "meminfo");
    std::string name, unit;
    for (std::int64_t kib = 0; memory >> name >> kib;) {
        std::getline(memory, unit);
        if (name == "MemTotal:")
            facts.set("memory_bytes", kib * 1024);
        if (name == "MemAvailable:")
            facts.set("memory_available_bytes", kib * 1024);
    }
}

void read_limits(Facts& facts) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0)
        facts.set("memlock_bytes", limit.rlim_cur == RLIM_INFINITY
                                       ? std::int64_t{-1}
                                       : static_cast<std::int64_t>(limit.rlim_cur));
    struct statvfs shm {};
    if (::statvfs("/dev/shm", &shm) == 0) {
        facts.set("shm_bytes", static_cast<std::int64_t>(shm.f_blocks * shm.f_frsize));
        facts.set("shm_free_bytes", static_cast<std::int64_t>(shm.f_bavail * shm.f_frsize));
    }
}

} // namespace trireme::cluster
