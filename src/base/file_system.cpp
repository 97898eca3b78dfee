// Looks up the device of a path among the mounts. Their list is that of this process, so containers see their
// own.
#include "trireme/base/file_system.hpp"

#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "trireme/base/error.hpp"

namespace trireme {

std::string file_system_type(const std::filesystem::path& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0)
        return "";
    const std::string device = concat(major(status.st_dev), ":", minor(status.st_dev));
    // "36 35 98:0 /root /mnt rw,noatime master:1 - ext3 /dev/root rw,errors=continue"
    std::ifstream mounts("/proc/self/mountinfo");
    for (std::string line; std::getline(mounts, line);) {
        std::istringstream words(line);
        std::string number, parent, its_device, word;
        words >> number >> parent >> its_device;
        while (its_device == device && words >> word)
            if (word == "-")
                return words >> word ? word : "";
    }
    return "";
}

} // namespace trireme
