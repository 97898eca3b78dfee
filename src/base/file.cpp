// Reading, mapping and atomically publishing files with plain POSIX calls.
#include "trireme/base/file.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "trireme/base/output_file.hpp"
#include "trireme/base/sizes.hpp"

namespace trireme {
namespace {

// Owns a file descriptor.
class Descriptor {
  public:
    explicit Descriptor(int value) : value_(value) {}
    Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
    Descriptor& operator=(Descriptor&&) = delete;
    ~Descriptor() {
        if (value_ >= 0)
            ::close(value_);
    }
    int get() const { return value_; }

  private:
    int value_;
};

Descriptor open_to_read(const std::filesystem::path& path, ErrorCategory category,
                        std::vector<std::string> details, std::size_t& size_bytes) {
    Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0)
        throw Error(category, concat("cannot open ", path.string(), ": ", system_reason()),
                    std::move(details));
    struct stat status {};
    if (::fstat(file.get(), &status) != 0)
        throw Error(category, concat("cannot examine ", path.string(), ": ", system_reason()));
    if (!S_ISREG(status.st_mode))
        throw Error(category, concat(path.string(), " is not a regular file"), std::move(details));
    size_bytes = static_cast<std::size_t>(status.st_size);
    return file;
}

} // namespace

std::string system_reason() {
    return std::error_code(errno, std::generic_category()).message();
}

std::string read_file(const std::filesystem::path& path, ErrorCategory category,
                      std::vector<std::string> details) {
    const MappedFile file(path, category, std::move(details));
    const std::span<const std::byte> bytes = file.bytes();
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void require_room(const std::filesystem::path& directory, std::int64_t bytes) {
    struct statvfs disk {};
    if (::statvfs(directory.c_str(), &disk) != 0)
        throw Error(ErrorCategory::output,
                    concat("cannot ask for the free space of ", directory.string(), ": ", system_reason()));
    // Some file systems do not say how large they are.
    const auto free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
    if (disk.f_blocks > 0 && free < static_cast<double>(bytes))
        throw Error(ErrorCategory::output,
                    concat("no room for ", show_bytes(bytes), " in ", directory.string(), ": ",
                           show_bytes(static_cast<std::int64_t>(free)), " are free"),
                    {"try: free space and quota (df -h, quota -s), or another --save"});
}

void sync_directory(const std::filesystem::path& directory) {
    const Descriptor file(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (file.get() < 0 || ::fsync(file.get()) != 0)
        throw Error(ErrorCategory::output,
                    concat("cannot sync directory ", directory.string(), ": ", system_reason()));
}

void publish_file(const std::filesystem::path& path, std::string_view content) {
    OutputFile file(path);
    file.write(content);
    file.sync();
    file.publish();
    sync_directory(directory_of(path));
}

MappedFile::MappedFile(const std::filesystem::path& path, ErrorCategory category,
                       std::vector<std::string> details) {
    const Descriptor file = open_to_read(path, category, std::move(details), size_);
    if (size_ == 0)
        return;
    void* mapping = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
    if (mapping == MAP_FAILED)
        throw Error(category, concat("cannot map ", path.string(), ": ", system_reason()));
    data_ = static_cast<const std::byte*>(mapping);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    if (this != &other) {
        MappedFile taken(std::move(other));
        std::swap(data_, taken.data_);
        std::swap(size_, taken.size_);
    }
    return *this;
}

MappedFile::~MappedFile() {
    if (data_ != nullptr)
        ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::advise(MappedAccess access) const {
    // Advice that is refused changes speed only.
    if (size_ > 0)
        static_cast<void>(::madvise(const_cast<std::byte*>(data_), size_,
                                    access == MappedAccess::random ? MADV_RANDOM : MADV_SEQUENTIAL));
}

void MappedFile::fetch(std::size_t offset, std::size_t bytes) const {
    static const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t begin = offset / page * page, end = std::min(offset + bytes, size_);
    if (end > begin)
        static_cast<void>(::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_WILLNEED));
}

void MappedFile::forget() const {
    if (size_ > 0)
        static_cast<void>(::madvise(const_cast<std::byte*>(data_), size_, MADV_DONTNEED));
}

} // namespace trireme
