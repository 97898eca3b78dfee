// Files: read whole, map read-only, and publish atomically (temporary file, fsync, rename, fsync of the
// parent).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/error.hpp"

namespace trireme {

// The whole file. Throws Error of `category` that names the path and the system's reason; `details` are added
// to it.
std::string read_file(const std::filesystem::path& path, ErrorCategory category,
                      std::vector<std::string> details = {});

// Replaces `path` in one step: readers see the old or the new content, also after a crash. Throws Error
// (output).
void publish_file(const std::filesystem::path& path, std::string_view content);

// Whether the file system of `directory` has `bytes` free. Throws Error (output) if not; one that cannot tell
// passes.
void require_room(const std::filesystem::path& directory, std::int64_t bytes);

// fsync of a directory, so that a rename in it survives a crash. Throws Error (output).
void sync_directory(const std::filesystem::path& directory);

// strerror of the current errno, thread-safe.
std::string system_reason();

enum class MappedAccess { random, sequential };

// A whole file mapped read-only. Owns the mapping; move-only. An empty file maps to an empty span.
class MappedFile {
  public:
    MappedFile() = default;
    MappedFile(const std::filesystem::path& path, ErrorCategory category,
               std::vector<std::string> details = {});
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile();

    std::span<const std::byte> bytes() const { return {data_, size_}; }
    // How the bytes will be read: whether the system should read ahead.
    void advise(MappedAccess access) const;
    // These bytes are wanted soon: one request for all of them, without waiting.
    void fetch(std::size_t offset, std::size_t bytes) const;
    // The pages read so far no longer count as memory of this process; they are read again when needed.
    void forget() const;

  private:
    const std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace trireme
