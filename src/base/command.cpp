// Starts a program by posix_spawn and reads its output through pipes until it has ended or its time is up.
// Its end is looked for by itself: pipes may stay open behind it in its children, or close before it.
#include "trireme/base/command.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

#include "trireme/base/error.hpp"
#include "trireme/base/printable.hpp"

extern char** environ;

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostKept = 64 << 10;                  // bytes of each stream
constexpr auto kBetweenLooks = std::chrono::milliseconds(5); // at the child, while its streams are silent

Clock::duration duration_of(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// The child's output and errors, in this order: descriptors to read, and what came through them.
struct Streams {
    std::array<pollfd, 2> ends{{{-1, POLLIN, 0}, {-1, POLLIN, 0}}};
    std::array<std::string, 2> texts;

    Streams() = default;
    ~Streams() {
        for (pollfd& end : ends)
            close(end);
    }
    Streams(const Streams&) = delete;
    Streams& operator=(const Streams&) = delete;

    static void close(pollfd& end) {
        if (end.fd >= 0)
            ::close(end.fd);
        end.fd = -1; // poll() passes over it
    }
    // At most `most` bytes of what is there; what is more than can be kept is dropped. Returns their count.
    std::size_t read(std::size_t i, std::size_t most) {
        std::array<char, 16384> buffer;
        const ssize_t count = ::read(ends[i].fd, buffer.data(), std::min(most, buffer.size()));
        if (count <= 0) {
            if (count == 0 || errno != EINTR)
                close(ends[i]);
            return 0;
        }
        texts[i].append(buffer.data(),
                        std::min(static_cast<std::size_t>(count), kMostKept - texts[i].size()));
        return static_cast<std::size_t>(count);
    }
    // What comes within kBetweenLooks.
    void read_some() {
        const auto wait = std::chrono::milliseconds(kBetweenLooks).count();
        if (::poll(ends.data(), ends.size(), static_cast<int>(wait)) <= 0)
            return;
        for (std::size_t i = 0; i < ends.size(); ++i)
            if (ends[i].fd >= 0 && std::exchange(ends[i].revents, 0) != 0)
                read(i, kMostKept);
    }
    // What stands in the pipes now, without waiting for more.
    void read_rest() {
        for (std::size_t i = 0; i < ends.size(); ++i) {
            int waiting = 0;
            if (ends[i].fd < 0 || ::ioctl(ends[i].fd, FIONREAD, &waiting) != 0)
                continue;
            for (auto left = static_cast<std::size_t>(waiting); left > 0;) {
                const std::size_t count = read(i, left);
                if (count == 0)
                    break;
                left -= count;
            }
        }
    }
};

// How the child begins: as the leader of a group, so that all of it can be killed, with no signal blocked and
// those as usual that it may need and an ignoring parent would hand down.
struct Attributes {
    posix_spawnattr_t value;

    Attributes() {
        sigset_t none, usual;
        ::sigemptyset(&none);
        ::sigemptyset(&usual);
        ::sigaddset(&usual, SIGCHLD);
        ::sigaddset(&usual, SIGPIPE);
        ::posix_spawnattr_init(&value);
        ::posix_spawnattr_setpgroup(&value, 0);
        ::posix_spawnattr_setsigmask(&value, &none);
        ::posix_spawnattr_setsigdefault(&value, &usual);
        ::posix_spawnattr_setflags(&value,
                                   POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }
    ~Attributes() { ::posix_spawnattr_destroy(&value); }
    Attributes(const Attributes&) = delete;
    Attributes& operator=(const Attributes&) = delete;
};

// 0, or errno of what hindered it.
int start(const std::vector<std::string>& arguments, Streams& streams, pid_t& child) {
    std::array<int, 2> of_child{-1, -1};
    int reason = 0;
    for (std::size_t i = 0; i < of_child.size() && reason == 0; ++i) {
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0) {
            reason = errno;
            break;
        }
        streams.ends[i].fd = ends[0];
        of_child[i] = ends[1];
    }
    if (reason == 0) {
        const Attributes attributes;
        posix_spawn_file_actions_t actions;
        ::posix_spawn_file_actions_init(&actions);
        ::posix_spawn_file_actions_adddup2(&actions, of_child[0], STDOUT_FILENO);
        ::posix_spawn_file_actions_adddup2(&actions, of_child[1], STDERR_FILENO);
        ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        std::vector<char*> pointers;
        for (const std::string& argument : arguments)
            pointers.push_back(const_cast<char*>(argument.c_str()));
        pointers.push_back(nullptr);
        reason = ::posix_spawnp(&child, pointers[0], &actions, &attributes.value, pointers.data(), environ);
        ::posix_spawn_file_actions_destroy(&actions);
    }
    for (const int end : of_child)
        if (end >= 0)
            ::close(end);
    return reason;
}

// Looks at the child without waiting: nothing while it runs, then what is known of its end.
std::optional<CommandEnd> look_at(pid_t child, const std::string& name) {
    int status = 0;
    const pid_t answer = ::waitpid(child, &status, WNOHANG);
    if (answer == 0 || (answer < 0 && errno == EINTR))
        return std::nullopt;
    CommandEnd end;
    if (answer < 0) { // ECHILD: it has ended, and the kernel or a handler of SIGCHLD has taken the rest
        end.fate = CommandFate::lost_code;
    } else if (WIFEXITED(status)) {
        end.exit_code = WEXITSTATUS(status);
    } else {
        end.fate = CommandFate::ended;
        end.errors = concat(name, ": ended by signal ", WTERMSIG(status));
    }
    return end;
}

// Kills the child and its group; whether it has ended then.
bool kill_group(pid_t child, double patience_seconds) {
    ::kill(-child, SIGKILL);
    const auto deadline = Clock::now() + duration_of(patience_seconds);
    while (Clock::now() < deadline) {
        if (look_at(child, ""))
            return true;
        std::this_thread::sleep_for(kBetweenLooks);
    }
    return false;
}

} // namespace

bool CommandEnd::good() const {
    return fate == CommandFate::lost_code ? !output.empty() || errors.empty() : exit_code == 0;
}

std::string CommandEnd::complaint() const {
    for (const std::string* text : {&errors, &output})
        if (const std::size_t begin = text->find_first_not_of(" \t\r\n"); begin != std::string::npos)
            return printable(text->substr(begin, text->find_first_of("\r\n", begin) - begin));
    return exit_code ? concat("exit code ", *exit_code) : "exit code not known";
}

CommandEnd run_command(const std::vector<std::string>& arguments, CommandLimits limits) {
    const auto deadline = Clock::now() + duration_of(limits.seconds);
    const std::string& name = arguments.front();
    Streams streams;
    pid_t child = -1;
    if (const int reason = start(arguments, streams, child); reason != 0)
        return {std::nullopt, "",
                concat(name, ": ", std::error_code(reason, std::generic_category()).message()),
                CommandFate::not_started};
    std::optional<CommandEnd> end;
    while (!(end = look_at(child, name)) && Clock::now() < deadline)
        streams.read_some();
    if (!end) {
        end = CommandEnd{std::nullopt, "", concat(name, ": no end after ", limits.seconds, " s"),
                         CommandFate::no_end};
        if (!kill_group(child, limits.to_be_killed_seconds))
            end->errors += ", and it does not end when killed";
    }
    streams.read_rest();
    end->output = std::move(streams.texts[0]);
    if (end->errors.empty())
        end->errors = std::move(streams.texts[1]);
    return *std::move(end);
}

std::optional<std::string> output_of(const std::vector<std::string>& arguments, CommandLimits limits) {
    CommandEnd end = run_command(arguments, limits);
    return end.good() ? std::optional(std::move(end.output)) : std::nullopt;
}

} // namespace trireme
