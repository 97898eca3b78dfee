// The sub-commands of trireme, in one list: dispatch, usage texts, --help and docs/options.md read it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::options {

enum class Command : std::uint8_t {
    pretrain,
    evaluate,
    generate,
    checkpoint_inspect,
    checkpoint_diff,
    checkpoint_verify,
    checkpoint_export_hf,
    checkpoint_import_hf,
};

struct CommandInfo {
    Command command;
    std::string_view name;     // as typed after `trireme`: "pretrain", "checkpoint diff"
    std::string_view operands; // what is given without an option, a word each: "A B"
    std::string_view summary;
};

// In the order in which people see them.
std::span<const CommandInfo> commands();
const CommandInfo& info_of(Command command);
std::string_view name_of(Command command);
std::vector<std::string_view> operands_of(Command command);

// The command that the first words of a command line name, and how many words that takes.
struct NamedCommand {
    Command command;
    std::size_t words;
};
std::optional<NamedCommand> find_command(std::span<const std::string> line);

// `trireme --help`; of a family ("checkpoint") alone, or of all commands with a family as one line.
std::string usage_text(std::string_view family = {});
// Whether several commands begin with this word.
bool is_family(std::string_view word);

} // namespace trireme::options
