// Boxes of contiguous datasets by pread and pwrite, a call for each run of neighbours.
#include "trireme/storage/direct_file.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "trireme/base/file.hpp"

namespace trireme::storage {

namespace {

// One call never moves more: Linux would cut it short near 2 GiB anyway.
constexpr std::size_t kLargestCall = std::size_t{256} << 20;

// Calls move(piece, offset in the file) until all of `bytes`, the elements of the box, has been moved; it
// returns how many bytes it did.
template <class Byte, class Move>
void for_each_call(const Place& place, const topology::Box& box, std::span<Byte> bytes, Move move) {
    const std::int64_t element = size_bytes(place.type);
    TRIREME_ASSERT(box.elements() * element == static_cast<std::int64_t>(bytes.size()), bytes.size(),
                   " bytes for the box ", box.text());
    topology::for_each_run(place.shape, box, [&](std::int64_t first, std::int64_t count) {
        std::int64_t at = place.offset + first * element;
        std::span<Byte> run = bytes.first(static_cast<std::size_t>(count * element));
        bytes = bytes.subspan(run.size());
        while (!run.empty()) {
            const ssize_t done = move(run.first(std::min(run.size(), kLargestCall)), at);
            if (done > 0) {
                run = run.subspan(static_cast<std::size_t>(done));
                at += done;
            }
        }
    });
}

} // namespace

topology::Interval Place::extent(const topology::Box& box) const {
    std::int64_t first = 0, last = 0; // elements
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        first = first * shape[axis] + box.axes[axis].begin;
        last = last * shape[axis] + box.axes[axis].end - 1;
    }
    if (box.empty())
        return {offset, offset};
    return {offset + first * size_bytes(type), offset + (last + 1) * size_bytes(type)};
}

DirectFile::DirectFile(const std::filesystem::path& path, Mode mode) : path_(path), mode_(mode) {
    descriptor_ = ::open(path.c_str(), (mode == Mode::write ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (descriptor_ < 0)
        fail("open");
    static_cast<void>(::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_SEQUENTIAL)); // read further ahead
}

DirectFile::DirectFile(DirectFile&& other) noexcept
    : path_(std::move(other.path_)), mode_(other.mode_), descriptor_(std::exchange(other.descriptor_, -1)) {}

DirectFile& DirectFile::operator=(DirectFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(mode_, other.mode_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
}

DirectFile::~DirectFile() {
    if (descriptor_ >= 0)
        ::close(descriptor_);
}

void DirectFile::fail(const char* tried) const {
    const std::string reason = system_reason();
    const bool writing = mode_ == Mode::write;
    throw Error(writing ? ErrorCategory::output : ErrorCategory::checkpoint,
                concat("cannot ", tried, " ", path_.string(), ": ", reason),
                {writing ? "try: free space and quota (df, quota -s), and the rights of the directory"
                         : "try: whether the file is there and may be read (ls -l)"});
}

void DirectFile::reserve(std::int64_t bytes) {
    if (::fallocate(descriptor_, 0, 0, bytes) != 0 && errno != EOPNOTSUPP && errno != ENOSYS)
        fail("reserve room for");
}

void DirectFile::write(const Place& place, const topology::Box& box, std::span<const std::byte> bytes) {
    for_each_call(place, box, bytes, [&](std::span<const std::byte> piece, std::int64_t at) {
        const ssize_t done = ::pwrite(descriptor_, piece.data(), piece.size(), at);
        if (done < 0 && errno != EINTR)
            fail("write");
        return done;
    });
}

void DirectFile::read(const Place& place, const topology::Box& box, std::span<std::byte> bytes) {
    for_each_call(place, box, bytes, [&](std::span<std::byte> piece, std::int64_t at) {
        const ssize_t done = ::pread(descriptor_, piece.data(), piece.size(), at);
        if (done < 0 && errno != EINTR)
            fail("read");
        if (done == 0)
            throw Error(
                mode_ == Mode::write ? ErrorCategory::output : ErrorCategory::checkpoint,
                concat(path_.string(), " is cut short at byte ", at),
                {"try: another checkpoint (--ckpt-step); trireme checkpoint verify says which are whole"});
        return done;
    });
}

std::int64_t DirectFile::size() const {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0)
        fail("examine");
    return status.st_size;
}

// It does not wait, so errors of the disk are left to sync().
void DirectFile::start_writing(const topology::Interval& bytes) {
    if (!bytes.empty())
        static_cast<void>(::sync_file_range(descriptor_, bytes.begin, bytes.size(), SYNC_FILE_RANGE_WRITE));
}

void DirectFile::sync() {
    if (::fsync(descriptor_) != 0)
        fail("sync");
}

void DirectFile::forget() {
    static_cast<void>(::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED));
}

} // namespace trireme::storage
