// Starts a program by posix_spawn and reads its output through pipes until it ends or its time is up.
#include "trireme/base/command.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "trireme/base/error.hpp"

extern char** environ;

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

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
    void read(std::size_t i) {
        char buffer[4096];
        const ssize_t count = ::read(ends[i].fd, buffer, sizeof buffer);
        if (count > 0)
            texts[i].append(buffer, static_cast<std::size_t>(count));
        else if (count == 0 || errno != EINTR)
            close(ends[i]);
    }
    // Until the child has closed both, or the deadline.
    void read_all(Clock::time_point deadline) {
        while (ends[0].fd >= 0 || ends[1].fd >= 0) {
            const auto left =
                std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
            if (left <= 0)
                return;
            if (::poll(ends.data(), ends.size(), static_cast<int>(left)) < 0 && errno != EINTR)
                return;
            for (std::size_t i = 0; i < ends.size(); ++i)
                if (ends[i].fd >= 0 && std::exchange(ends[i].revents, 0) != 0)
                    read(i);
        }
    }
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
        posix_spawn_file_actions_t actions;
        ::posix_spawn_file_actions_init(&actions);
        ::posix_spawn_file_actions_adddup2(&actions, of_child[0], STDOUT_FILENO);
        ::posix_spawn_file_actions_adddup2(&actions, of_child[1], STDERR_FILENO);
        ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        std::vector<char*> pointers;
        for (const std::string& argument : arguments)
            pointers.push_back(const_cast<char*>(argument.c_str()));
        pointers.push_back(nullptr);
        reason = ::posix_spawnp(&child, pointers[0], &actions, nullptr, pointers.data(), environ);
        ::posix_spawn_file_actions_destroy(&actions);
    }
    for (const int end : of_child)
        if (end >= 0)
            ::close(end);
    return reason;
}

// The exit status of the child, ended by force at the deadline.
int end_of(pid_t child, Clock::time_point deadline) {
    int status = -1;
    while (::waitpid(child, &status, WNOHANG) == 0) {
        if (Clock::now() > deadline)
            ::kill(child, SIGKILL);
        ::usleep(2000);
    }
    return status;
}

} // namespace

std::string CommandEnd::complaint() const {
    for (const std::string* text : {&errors, &output})
        if (const std::size_t begin = text->find_first_not_of(" \t\r\n"); begin != std::string::npos)
            return text->substr(begin, text->find_first_of("\r\n", begin) - begin);
    return exit_code ? concat("exit code ", *exit_code) : "";
}

CommandEnd run_command(const std::vector<std::string>& arguments, double seconds) {
    const auto deadline =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    CommandEnd result;
    Streams streams;
    pid_t child = -1;
    if (const int reason = start(arguments, streams, child); reason != 0) {
        result.errors =
            concat(arguments.front(), ": ", std::error_code(reason, std::generic_category()).message());
        return result;
    }
    streams.read_all(deadline);
    const int status = end_of(child, deadline);
    result.output = std::move(streams.texts[0]);
    result.errors = std::move(streams.texts[1]);
    if (WIFEXITED(status))
        result.exit_code = WEXITSTATUS(status);
    else
        result.errors = Clock::now() > deadline
                            ? concat(arguments.front(), ": no end after ", seconds, " s")
                            : concat(arguments.front(), ": ended by signal ", WTERMSIG(status));
    return result;
}

std::optional<std::string> output_of(const std::vector<std::string>& arguments, double seconds) {
    CommandEnd end = run_command(arguments, seconds);
    return end.good() ? std::optional(std::move(end.output)) : std::nullopt;
}

} // namespace trireme
