// Starts a program by posix_spawn and reads its output through a pipe until it ends or its time is up.
#include "trireme/base/command.hpp"

#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

// Adds what comes through the pipe; false once its other end is closed, or at the deadline.
bool read_some(int pipe, Clock::time_point deadline, std::string& text) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd waited{pipe, POLLIN, 0};
    if (left <= 0 || ::poll(&waited, 1, static_cast<int>(left)) <= 0)
        return false;
    char buffer[4096];
    const ssize_t count = ::read(pipe, buffer, sizeof buffer);
    if (count > 0)
        text.append(buffer, static_cast<std::size_t>(count));
    return count > 0;
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

std::optional<std::string> output_of(const std::vector<std::string>& arguments, double seconds) {
    const auto deadline =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        return std::nullopt;
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    std::vector<char*> pointers;
    for (const std::string& argument : arguments)
        pointers.push_back(const_cast<char*>(argument.c_str()));
    pointers.push_back(nullptr);
    pid_t child = -1;
    const bool started =
        ::posix_spawnp(&child, pointers[0], &actions, nullptr, pointers.data(), environ) == 0;
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    std::string text;
    while (started && read_some(ends[0], deadline, text)) {
    }
    ::close(ends[0]);
    if (!started || end_of(child, deadline) != 0)
        return std::nullopt;
    return text;
}

} // namespace trireme
