// Storage, tried out. The page cache would answer for the disk: files are synced, dropped from it and read
// again.
#include "storage_check.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/statvfs.h>
#include <thread>
#include <unistd.h>

#include "trireme/base/file.hpp"
#include "trireme/comm/phase.hpp"

namespace trireme::cluster {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kBlock = 1 << 20;
constexpr int kWrittenBlocks = 16; // a rank: 16 MiB
constexpr int kReadBlocks = 64;    // of each data file: at most 64 MiB
constexpr std::chrono::seconds kSharedWithin{
    5}; // network file systems show a new file to others after a while

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

class Descriptor {
  public:
    Descriptor(const fs::path& path, int flags) : number_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
    ~Descriptor() {
        if (number_ >= 0)
            ::close(number_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const { return number_; }

  private:
    int number_;
};

// A file that is gone with its owner.
class Temporary {
  public:
    explicit Temporary(fs::path path) : path_(std::move(path)) {}
    ~Temporary() {
        std::error_code ignored;
        fs::remove(path_, ignored);
    }
    Temporary(const Temporary&) = delete;
    Temporary& operator=(const Temporary&) = delete;
    const fs::path& path() const { return path_; }

  private:
    fs::path path_;
};

// "" or the system's reason.
std::string write_blocks(const fs::path& path, double& mbs) {
    const std::vector<char> block(kBlock, 'x');
    const Clock::time_point start = Clock::now();
    const Descriptor file(path, O_WRONLY | O_CREAT | O_TRUNC);
    if (file.get() < 0)
        return system_reason();
    for (int i = 0; i < kWrittenBlocks; ++i)
        for (std::size_t done = 0; done < kBlock;) {
            const ssize_t count = ::write(file.get(), block.data() + done, kBlock - done);
            if (count < 0)
                return system_reason();
            done += static_cast<std::size_t>(count);
        }
    if (::fsync(file.get()) != 0)
        return system_reason();
    mbs = kWrittenBlocks * static_cast<double>(kBlock) / 1e6 / seconds_since(start);
    ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
    return "";
}

std::string read_blocks(const fs::path& path, int most, double& bytes, double& seconds) {
    std::vector<char> block(kBlock);
    const Clock::time_point start = Clock::now();
    const Descriptor file(path, O_RDONLY);
    if (file.get() < 0)
        return system_reason();
    ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
    for (int i = 0; i < most; ++i) {
        const ssize_t count = ::read(file.get(), block.data(), kBlock);
        if (count < 0)
            return system_reason();
        if (count == 0)
            break;
        bytes += static_cast<double>(count);
    }
    seconds += seconds_since(start);
    return "";
}

bool appears(const fs::path& path, const std::string& content) {
    const Clock::time_point start = Clock::now();
    for (;;) {
        std::error_code missing;
        if (fs::exists(path, missing)) {
            try {
                if (read_file(path, ErrorCategory::output) == content)
                    return true;
            } catch (const Error&) { // another's file of that name
                return false;
            }
        }
        if (Clock::now() - start > kSharedWithin)
            return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
}

} // namespace

void check_saving(const std::string& directory, comm::Runtime& runtime, Facts& facts) {
    const comm::PhaseScope phase("trying out --save");
    comm::HostGroup& world = runtime.world();
    const auto trouble = [&](const std::string& what) {
        facts.set("save.trouble", concat("cannot use --save ", directory, " (", what, ")"));
    };
    // One number for this run, so that nobody takes an old file for rank 0's.
    const std::string own =
        concat(runtime.host(), "-", ::getpid(), "-", Clock::now().time_since_epoch().count());
    const std::string token = world.broadcast(own, 0);
    const fs::path folder(directory);
    std::error_code failure;
    if (runtime.rank() == 0)
        fs::create_directories(folder, failure);
    const Temporary sign(folder / concat(".preflight-", token));
    std::string reason = failure ? failure.message() : "";
    if (runtime.rank() == 0 && reason.empty()) {
        const Descriptor file(sign.path(), O_WRONLY | O_CREAT | O_TRUNC);
        const auto length = static_cast<ssize_t>(token.size());
        if (file.get() < 0 || ::write(file.get(), token.data(), token.size()) != length ||
            ::fsync(file.get()) != 0)
            reason = system_reason();
    }
    const std::string of_first = world.broadcast(reason, 0);
    if (!of_first.empty()) {
        if (runtime.rank() == 0)
            trouble(of_first);
        return;
    }
    const bool shared = appears(sign.path(), token);
    if (!shared)
        trouble(concat("not shared: what rank 0 on ", runtime.hosts().front(), " writes there is not seen"));
    world.barrier(); // the sign may go
    if (shared) {
        struct statvfs room {};
        if (::statvfs(folder.c_str(), &room) == 0)
            facts.set("save.free_bytes", static_cast<std::int64_t>(room.f_bavail * room.f_frsize));
        const Temporary file(folder / concat(".preflight-", token, "-", runtime.rank()));
        double mbs = 0, bytes = 0, seconds = 0;
        if (const std::string what = write_blocks(file.path(), mbs); !what.empty()) {
            trouble(what);
        } else {
            facts.set("save.write_mbs", mbs);
            if (read_blocks(file.path(), kWrittenBlocks, bytes, seconds).empty() && seconds > 0)
                facts.set("save.read_mbs", bytes / 1e6 / seconds);
        }
        world.barrier(); // all have written at once
    } else {
        world.barrier();
    }
}

void check_data(const std::vector<std::string>& files, Facts& facts) {
    const comm::PhaseScope phase("trying out --data-path");
    double bytes = 0, seconds = 0;
    for (const std::string& name : files) {
        std::error_code missing;
        const std::uintmax_t size = fs::file_size(name, missing);
        if (!missing)
            facts.set(concat("data.bytes.", name), static_cast<std::int64_t>(size));
        const std::string what = missing ? missing.message() : read_blocks(name, kReadBlocks, bytes, seconds);
        if (!what.empty() && !facts.has("data.trouble"))
            facts.set("data.trouble", concat("cannot read ", name, " (", what, ")"));
    }
    if (bytes >= 1e6 && seconds > 0) // less says nothing of the disk
        facts.set("data.read_mbs", bytes / 1e6 / seconds);
}

} // namespace trireme::cluster
