// Another program, asked for a line or two: what it prints, within a time limit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

// What became of a program.
enum class CommandFate : std::uint8_t {
    exited,      // by itself, with an exit code
    lost_code,   // it has ended, but how is not known
    ended,       // by a signal that was not ours
    not_started, // not found, not to be executed
    no_end,      // not within its time
};

struct CommandEnd {
    std::optional<int> exit_code; // if it exited
    std::string output;           // standard output, its first 64 KiB
    std::string errors;           // standard error, likewise; why, if there is no exit code
    CommandFate fate = CommandFate::exited;

    // Exit code 0. Where the code is lost, a program that printed something or did not complain counts as
    // good.
    bool good() const;
    // The first line that it complained with, as printable() shows it, or its exit code.
    std::string complaint() const;
};

struct CommandLimits {
    double seconds;              // from the start to the end
    double to_be_killed_seconds; // more, for a process that is stuck in the kernel
    CommandLimits(double limit, double to_be_killed = 1)
        : seconds(limit), to_be_killed_seconds(to_be_killed) {}
};

// Starts `arguments[0]` (found in PATH), without a shell, and waits until it has ended; children that it
// leaves behind are not waited for, even if they hold its output open. After its time it is killed with all
// processes of its group, and one that does not end then either is left alone. Starting itself has no limit:
// where a directory of PATH hangs, so does this. No fork of this process: its memory may be pinned by a
// network.
//
// Any thread may call it, under any handling of SIGCHLD, which it leaves as it is. Where a launcher has
// SIGCHLD ignored, or a handler waits for any child, the exit code is lost; the program itself finds SIGCHLD
// as usual.
CommandEnd run_command(const std::vector<std::string>& arguments, CommandLimits limits);

// Its standard output; its errors are not shown. Nothing if it cannot be started, fails, or is not through in
// time.
std::optional<std::string> output_of(const std::vector<std::string>& arguments, CommandLimits limits);

} // namespace trireme
