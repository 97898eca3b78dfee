// Another program, asked for a line or two: what it prints, within a time limit.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trireme {

// How a program ended.
struct CommandEnd {
    std::optional<int> exit_code; // nothing: it could not be started, or was ended
    std::string output;           // standard output
    std::string errors;           // standard error; why, if there is no exit code

    bool good() const { return exit_code == 0; }
    // The first line that it complained with, or its exit code.
    std::string complaint() const;
};

// Starts `arguments[0]` (found in PATH), without a shell, and waits; after `seconds` it is ended. No fork of
// this process: its memory may be pinned by a network. Any thread may call it.
CommandEnd run_command(const std::vector<std::string>& arguments, double seconds);

// Its standard output; its errors are not shown. Nothing if it cannot be started, fails, or is not through in
// time.
std::optional<std::string> output_of(const std::vector<std::string>& arguments, double seconds);

} // namespace trireme
