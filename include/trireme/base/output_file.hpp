// A file that appears under its name once it is complete and on disk: streamed to a temporary name beside it,
// which is removed again if publish() is never reached. publish_file() (file.hpp) does all of it for content
// that is in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace trireme {

class OutputFile {
  public:
    // Throws Error (output), as every member does that writes.
    explicit OutputFile(const std::filesystem::path& path);
    ~OutputFile();
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;

    const std::filesystem::path& path() const { return path_; }
    std::int64_t bytes() const { return written_bytes_ + static_cast<std::int64_t>(buffer_.size()); }

    void write(std::span<const std::byte> bytes);
    void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
    template <class Value>
    void write_value(const Value& value) {
        write(std::as_bytes(std::span(&value, 1)));
    }
    // Overwrites what was written before at a place.
    void write_at(std::int64_t offset, std::span<const std::byte> bytes);
    // Forgets what was written beyond the first `bytes`.
    void cut_back(std::int64_t bytes);
    // Reads back what was written; fills `bytes`.
    void read_at(std::int64_t offset, std::span<std::byte> bytes);

    // On disk, still under the temporary name.
    void sync();
    // Renames; needs sync() before. The caller syncs the directory.
    void publish();

  private:
    void flush();
    [[noreturn]] void fail(const char* tried) const;

    std::filesystem::path path_;
    std::filesystem::path temporary_;
    int descriptor_ = -1;
    std::int64_t written_bytes_ = 0;
    std::vector<std::byte> buffer_;
};

// Removes the temporary files that killed processes of this host have left: those whose path begins with
// `start` and whose process is no more. What another host, or a process that lives, writes stays. Returns
// what was removed, in alphabetical order; a file that cannot be removed is left alone.
std::vector<std::filesystem::path> remove_stale_temporaries(const std::filesystem::path& start);

// The directory that holds `path`.
std::filesystem::path directory_of(const std::filesystem::path& path);

} // namespace trireme
