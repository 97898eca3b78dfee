// OutputFile by plain POSIX calls, every one of them checked: a full disk may show at any of them.
#include "trireme/base/output_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include "trireme/base/error.hpp"
#include "trireme/base/file.hpp"

namespace trireme {

static constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

std::filesystem::path directory_of(const std::filesystem::path& path) {
    return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

// Two hosts may write the same path of a shared file system, and have the same process ids.
static std::string temporary_ending() {
    std::array<char, 256> host{};
    if (::gethostname(host.data(), host.size() - 1) != 0)
        host = {};
    return concat(".tmp.", host.data(), ".");
}

static std::string temporary_name(const std::filesystem::path& path) {
    return concat(path.string(), temporary_ending(), ::getpid());
}

// Whether NAME is START...tmp.HOST.PID of a process of this host that is no more.
static bool is_stale(std::string_view name, std::string_view start) {
    const std::string ending = temporary_ending();
    const std::size_t at = name.rfind(ending);
    if (!name.starts_with(start) || at == std::string_view::npos || at < start.size())
        return false;
    const char* const end = name.data() + name.size();
    pid_t process = 0;
    const auto [rest, error] = std::from_chars(name.data() + at + ending.size(), end, process);
    return error == std::errc() && rest == end && process > 0 && ::kill(process, 0) != 0 && errno == ESRCH;
}

std::vector<std::filesystem::path> remove_stale_temporaries(const std::filesystem::path& start) {
    std::vector<std::filesystem::path> removed;
    std::error_code error;
    std::filesystem::directory_iterator entry(directory_of(start), error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
        if (is_stale(entry->path().filename().native(), start.filename().native()) &&
            ::unlink(entry->path().c_str()) == 0)
            removed.push_back(entry->path());
    std::sort(removed.begin(), removed.end());
    return removed;
}

OutputFile::OutputFile(const std::filesystem::path& path) : path_(path), temporary_(temporary_name(path)) {
    descriptor_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor_ < 0)
        fail("create");
    buffer_.reserve(kBufferBytes);
}

OutputFile::~OutputFile() {
    if (descriptor_ >= 0) {
        ::close(descriptor_);
        ::unlink(temporary_.c_str());
    }
}

void OutputFile::fail(const char* tried) const {
    throw Error(ErrorCategory::output, concat("cannot ", tried, " ", path_.string(), ": ", system_reason()));
}

static bool write_all(int descriptor, std::span<const std::byte> bytes, std::int64_t offset) {
    while (!bytes.empty()) {
        const ssize_t count = ::pwrite(descriptor, bytes.data(), bytes.size(), offset);
        if (count < 0 && errno != EINTR)
            return false;
        if (count > 0) {
            bytes = bytes.subspan(static_cast<std::size_t>(count));
            offset += count;
        }
    }
    return true;
}

void OutputFile::flush() {
    if (!write_all(descriptor_, buffer_, written_bytes_))
        fail("write");
    written_bytes_ += static_cast<std::int64_t>(buffer_.size());
    buffer_.clear();
}

void OutputFile::write(std::span<const std::byte> bytes) {
    if (buffer_.size() + bytes.size() > kBufferBytes)
        flush();
    if (bytes.size() > kBufferBytes) {
        if (!write_all(descriptor_, bytes, written_bytes_))
            fail("write");
        written_bytes_ += static_cast<std::int64_t>(bytes.size());
        return;
    }
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void OutputFile::write_at(std::int64_t offset, std::span<const std::byte> bytes) {
    flush();
    if (!write_all(descriptor_, bytes, offset))
        fail("write");
}

void OutputFile::cut_back(std::int64_t bytes) {
    TRIREME_ASSERT(bytes >= 0 && bytes <= this->bytes(), path_.string(), " has ", this->bytes(),
                   " bytes, not ", bytes);
    if (bytes >= written_bytes_) {
        buffer_.resize(static_cast<std::size_t>(bytes - written_bytes_));
        return;
    }
    buffer_.clear();
    if (::ftruncate(descriptor_, bytes) != 0)
        fail("write");
    written_bytes_ = bytes;
}

void OutputFile::read_at(std::int64_t offset, std::span<std::byte> bytes) {
    flush();
    while (!bytes.empty()) {
        const ssize_t count = ::pread(descriptor_, bytes.data(), bytes.size(), offset);
        if (count == 0)
            throw Error(ErrorCategory::output,
                        concat(path_.string(), " became shorter while it was written"));
        if (count < 0 && errno != EINTR)
            fail("read back");
        if (count > 0) {
            bytes = bytes.subspan(static_cast<std::size_t>(count));
            offset += count;
        }
    }
}

void OutputFile::sync() {
    flush();
    if (::fsync(descriptor_) != 0)
        fail("write");
}

void OutputFile::publish() {
    if (::close(std::exchange(descriptor_, -1)) != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
        const std::string reason = system_reason();
        ::unlink(temporary_.c_str());
        throw Error(ErrorCategory::output, concat("cannot replace ", path_.string(), ": ", reason));
    }
}

} // namespace trireme
