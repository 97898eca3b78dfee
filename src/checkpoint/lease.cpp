// The lease file: lines name=value, the beat first and of fixed width, so that it can be renewed in place.
// Its holder keeps it open: after a take-over, which renames another file into its place, renewing it does no
// harm.
#include "trireme/checkpoint/lease.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "trireme/base/error.hpp"
#include "trireme/base/file.hpp"
#include "trireme/base/output_file.hpp"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;
using Fields = std::map<std::string, std::string>;

constexpr const char* kName = "lease";

std::string variable(const char* name) {
    const char* text = std::getenv(name);
    return text == nullptr ? "" : text;
}

std::string host_name() {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

// Process ids mean something within one of these only.
std::string pid_namespace() {
    std::error_code failure;
    return fs::read_symlink("/proc/self/ns/pid", failure).string();
}

// When a process was started, in ticks since boot: tells it from a later one of the same id. Nothing if there
// is none, or only what its parent has not asked for yet (a zombie). Fields 22 and 3 of its stat, of which
// the second, the name in brackets, may hold blanks.
std::string start_of(const std::string& pid) {
    std::ifstream file("/proc/" + pid + "/stat");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    const std::size_t name_end = text.rfind(')');
    if (name_end == std::string::npos)
        return "";
    std::istringstream fields(text.substr(name_end + 1));
    std::string state, start;
    fields >> state;
    constexpr int kSkipped = 18; // fields 4 to 21
    for (int i = 0; i < kSkipped + 1; ++i)
        fields >> start;
    return state == "Z" || state == "X" || !fields ? "" : start;
}

Fields fields_of_this_job() {
    const std::string pid = std::to_string(::getpid());
    return {{"host", host_name()},
            {"pid", pid},
            {"pid_namespace", pid_namespace()},
            {"process_start", start_of(pid)},
            {"job", variable("SLURM_JOB_ID")},
            {"restarts", variable("SLURM_RESTART_COUNT")}};
}

std::string beat_line(std::int64_t beat) {
    std::array<char, 32> line{};
    std::snprintf(line.data(), line.size(), "beat=%012lld\n", static_cast<long long>(beat));
    return line.data();
}

std::string content(const Fields& fields) {
    std::string text = beat_line(0);
    for (const auto& [name, value] : fields)
        text += concat(name, "=", value, "\n");
    return text;
}

std::string text_of(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

Fields parse(const std::string& text) {
    Fields fields;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        const std::size_t equals = text.find('=', at);
        if (equals < end)
            fields[text.substr(at, equals - at)] = text.substr(equals + 1, end - equals - 1);
        at = end + 1;
    }
    return fields;
}

std::int64_t number(const std::string& text) {
    std::int64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

// "job 1234 (process 77 on node3)"
std::string describe(Fields holder) {
    const std::string where = concat("process ", holder["pid"], " on ", holder["host"]);
    return holder["job"].empty() ? where : concat("job ", holder["job"], " (", where, ")");
}

enum class Life { dead, alive, unknown };

Life life_of(Fields holder, Fields self) {
    if (!holder["job"].empty() && holder["job"] == self["job"] &&
        number(holder["restarts"]) < number(self["restarts"]))
        return Life::dead;
    const bool can_ask = !holder["pid"].empty() && holder["host"] == self["host"] &&
                         holder["pid_namespace"] == self["pid_namespace"];
    if (!can_ask)
        return Life::unknown;
    return !holder["process_start"].empty() && start_of(holder["pid"]) == holder["process_start"]
               ? Life::alive
               : Life::dead;
}

// Creates the file with this content if there is none of that name; false if there is.
bool create_new(const fs::path& path, const std::string& text) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 && errno == EEXIST)
        return false;
    const bool written =
        file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    const std::string reason = system_reason();
    if (file >= 0)
        ::close(file);
    if (file >= 0 && !written)
        ::unlink(path.c_str()); // an empty one would keep the next job waiting
    if (!written)
        throw Error(ErrorCategory::output, concat("cannot write ", path.string(), ": ", reason),
                    {"try: check rights and room of the --save directory (ls -ld, df)"});
    return true;
}

void replace(const fs::path& path, const std::string& text) {
    OutputFile file(path);
    file.write(text);
    file.sync();
    file.publish();
}

} // namespace

struct Lease::Impl {
    fs::path path;
    int descriptor = -1;
    std::atomic<bool> lost{false};
    std::mutex mutex;
    std::condition_variable stop_asked;
    bool stop = false;
    std::thread beating;

    explicit Impl(fs::path of) : path(std::move(of)) {}
    ~Impl() {
        {
            const std::scoped_lock lock(mutex);
            stop = true;
        }
        stop_asked.notify_all();
        if (beating.joinable())
            beating.join();
        if (descriptor >= 0) {
            if (still_there())
                ::unlink(path.c_str());
            ::close(descriptor);
        }
    }

    // Whether the file of that name is the one that was written here.
    bool still_there() const {
        struct stat own {
        }, named{};
        return ::fstat(descriptor, &own) == 0 && ::stat(path.c_str(), &named) == 0 &&
               own.st_ino == named.st_ino && own.st_dev == named.st_dev;
    }

    void take(const std::function<void(const std::string&)>& say, const LeaseTimes& times) {
        const Fields self = fields_of_this_job();
        if (!create_new(path, content(self))) {
            const std::string before = text_of(path);
            const Fields holder = parse(before);
            Life life = life_of(holder, self);
            if (life == Life::unknown) {
                say(concat("lease     ", path.string(), " is held by ", describe(holder),
                           ": waiting for a sign of life for ", times.patience.count() / 1000, " s"));
                life = watch(before, times) ? Life::alive : Life::dead;
            }
            if (life == Life::alive)
                throw Error(
                    ErrorCategory::output,
                    concat("another job saves into ", path.parent_path().string(), ": ", describe(holder)),
                    {concat("its lease is ", path.string(), ", --save names the directory"),
                     "try: another --save, or end the other job first"});
            say(concat("lease     ", path.string(), " was left behind by ", describe(holder),
                       ": taken over"));
            replace(path, content(self));
        }
        descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
        if (descriptor < 0)
            throw Error(ErrorCategory::output, concat("cannot open ", path.string(), ": ", system_reason()));
        beating = std::thread([this, every = times.beat] { beat(every); });
    }

    // Whether the lease changes, or goes, while it is looked at.
    bool watch(const std::string& before, const LeaseTimes& times) const {
        const auto end = std::chrono::steady_clock::now() + times.patience;
        while (std::chrono::steady_clock::now() < end) {
            std::this_thread::sleep_for(times.beat / 4);
            std::error_code failure;
            if (!fs::exists(path, failure))
                return false;
            if (text_of(path) != before)
                return true;
        }
        return false;
    }

    // The thread. A beat that cannot be written is tried again at the next one.
    void beat(std::chrono::milliseconds every) {
        std::unique_lock lock(mutex);
        for (std::int64_t count = 1; !stop_asked.wait_for(lock, every, [this] { return stop; }); ++count) {
            const std::string line = beat_line(count);
            static_cast<void>(::pwrite(descriptor, line.data(), line.size(), 0) == 0);
            if (!still_there())
                lost = true;
        }
    }
};

Lease::Lease(const fs::path& directory, const std::function<void(const std::string&)>& say,
             const LeaseTimes& times)
    : impl_(std::make_unique<Impl>(directory / kName)) {
    impl_->take(say, times);
}

Lease::~Lease() = default;

void Lease::require_held() const {
    if (!impl_->lost && impl_->still_there())
        return;
    throw Error(ErrorCategory::output,
                concat("the lease ", impl_->path.string(), " is no longer held by this job"),
                {concat("its holder is now ", describe(parse(text_of(impl_->path)))),
                 "try: end one of the two jobs; another --save for this one"});
}

} // namespace trireme::checkpoint
