// Which kind of file system holds a path, in words for people.
#pragma once

#include <filesystem>
#include <string>

namespace trireme {

// Its type as the kernel names it ("ext4", "nfs4", "lustre"); "" where that cannot be found out.
std::string file_system_type(const std::filesystem::path& path);

} // namespace trireme
