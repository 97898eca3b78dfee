// The fuzzers' input as a file, for code that reads files: in memory (/dev/shm) where there is such a place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <unistd.h>

namespace trireme::fuzz {

inline std::string path_of(const std::string& name) {
    static const std::string directory = [] {
        const char* memory = "/dev/shm";
        std::string pattern =
            std::filesystem::exists(memory) ? "/dev/shm/trireme-fuzz-XXXXXX" : "/tmp/trireme-fuzz-XXXXXX";
        if (::mkdtemp(pattern.data()) == nullptr)
            std::abort();
        static const std::string kept = pattern;
        std::atexit([] {
            std::error_code ignored;
            std::filesystem::remove_all(kept, ignored);
        });
        return pattern;
    }();
    return directory + "/" + name;
}

inline std::string write(const std::string& name, const std::uint8_t* bytes, std::size_t size) {
    const std::string path = path_of(name);
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || ::write(file, bytes, size) != static_cast<ssize_t>(size) || ::close(file) != 0)
        std::abort();
    return path;
}

} // namespace trireme::fuzz
