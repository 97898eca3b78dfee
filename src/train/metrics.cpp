// Appends lines to metrics.jsonl.
#include "metrics.hpp"

#include <cerrno>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/base/error.hpp"
#include "trireme/base/file.hpp"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

// Where the last whole line ends: a machine that died may have left a part of one.
::off_t end_of_lines(int file) {
    ::off_t end = ::lseek(file, 0, SEEK_END);
    for (char last = 0; end > 0 && ::pread(file, &last, 1, end - 1) == 1 && last != '\n';)
        --end;
    return end;
}

} // namespace

MetricsFile::MetricsFile(const fs::path& directory, MetricsStart start) : path_(directory / "metrics.jsonl") {
    std::error_code failure;
    if (start == MetricsStart::fresh && fs::exists(path_, failure)) {
        int number = 1;
        while (fs::exists(concat(path_.string(), ".", number), failure))
            ++number;
        const std::string kept = concat(path_.string(), ".", number);
        fs::rename(path_, kept, failure);
        if (failure)
            throw Error(ErrorCategory::output,
                        concat("cannot rename ", path_.string(), " to ", kept, ": ", failure.message()),
                        {"it is of another training and would be mixed with this one's",
                         "try: another --save, or move it away"});
    }
    file_ = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file_ < 0)
        fail();
    const ::off_t end = end_of_lines(file_);
    if (end != ::lseek(file_, 0, SEEK_END) && ::ftruncate(file_, end) != 0)
        fail();
}

MetricsFile::~MetricsFile() {
    ::close(file_);
}

void MetricsFile::add(const std::string& json) {
    const std::string line = json + "\n";
    const ::off_t before = ::lseek(file_, 0, SEEK_END);
    std::string_view rest = line;
    while (!rest.empty()) {
        const ::ssize_t written = ::write(file_, rest.data(), rest.size());
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0) {
            const int reason = errno;
            static_cast<void>(::ftruncate(file_, before));
            errno = reason;
            fail();
        }
        rest.remove_prefix(static_cast<std::size_t>(written));
    }
}

void MetricsFile::fail() const {
    throw Error(ErrorCategory::output, concat("cannot write ", path_.string(), ": ", system_reason()),
                {"try: room and rights there (df, ls -l), or another --save"});
}

} // namespace trireme::train
