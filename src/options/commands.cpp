// The list of sub-commands, and what is made from it.
#include "trireme/options/commands.hpp"

#include <algorithm>
#include <array>

#include "trireme/base/error.hpp"

namespace trireme::options {
namespace {

constexpr std::array kCommands{
    CommandInfo{Command::pretrain, "pretrain", "", "train a GPT (start it with mpirun or srun)"},
    CommandInfo{Command::evaluate, "evaluate", "", "loss and perplexity of a checkpoint"},
    CommandInfo{Command::generate, "generate", "", "continue a prompt with a checkpoint"},
    CommandInfo{Command::checkpoint_inspect, "checkpoint inspect", "PATH",
                "counters, options and tensors of a checkpoint"},
    CommandInfo{Command::checkpoint_diff, "checkpoint diff", "A B",
                "what differs between two checkpoints; exit code 1 if anything does"},
    CommandInfo{Command::checkpoint_verify, "checkpoint verify", "PATH",
                "read all of a checkpoint and hold it against its sums"},
    CommandInfo{Command::checkpoint_export_hf, "checkpoint export-hf", "DIR",
                "write the model of --load as safetensors and config.json for transformers"},
    CommandInfo{Command::checkpoint_import_hf, "checkpoint import-hf", "DIR",
                "make a checkpoint in --save from a GPT-2, Llama or Qwen 2.5 of transformers"},
};

// What `trireme --help` says of a family in one line.
constexpr std::string_view kFamilies[][2] = {
    {"checkpoint", "inspect, compare, verify, export and import checkpoints (one process)"}};

std::vector<std::string_view> words_of(std::string_view text) {
    std::vector<std::string_view> words;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(' '), text.size());
        if (end > 0)
            words.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return words;
}

std::string usage_line(std::string_view name, std::string_view summary, std::size_t width) {
    return concat("  ", name, std::string(width - name.size() + 2, ' '), summary, "\n");
}

std::string with_operands(const CommandInfo& info) {
    return info.operands.empty() ? std::string(info.name) : concat(info.name, " ", info.operands);
}

} // namespace

std::span<const CommandInfo> commands() {
    return kCommands;
}

const CommandInfo& info_of(Command command) {
    const auto* found = std::ranges::find(kCommands, command, &CommandInfo::command);
    TRIREME_ASSERT(found != kCommands.end(), "a command that is not in the list");
    return *found;
}

std::string_view name_of(Command command) {
    return info_of(command).name;
}

std::vector<std::string_view> operands_of(Command command) {
    return words_of(info_of(command).operands);
}

std::optional<NamedCommand> find_command(std::span<const std::string> line) {
    for (const CommandInfo& info : kCommands) {
        const std::vector<std::string_view> words = words_of(info.name);
        if (words.size() <= line.size() && std::equal(words.begin(), words.end(), line.begin()))
            return NamedCommand{info.command, words.size()};
    }
    return std::nullopt;
}

bool is_family(std::string_view word) {
    return std::ranges::any_of(kFamilies, [&](const auto& family) { return family[0] == word; });
}

std::string usage_text(std::string_view family) {
    const auto shown = [&](const CommandInfo& info) {
        const std::vector<std::string_view> words = words_of(info.name);
        return family.empty() ? words.size() == 1 : words.size() > 1 && words.front() == family;
    };
    constexpr std::string_view kInfo = "info";
    std::size_t width = kInfo.size();
    for (const CommandInfo& info : kCommands)
        if (shown(info))
            width = std::max(width, with_operands(info).size());
    if (family.empty())
        for (const auto& [name, summary] : kFamilies)
            width = std::max(width, name.size());
    std::string text = "usage: trireme COMMAND [OPTIONS]\n";
    for (const CommandInfo& info : kCommands)
        if (shown(info))
            text += usage_line(with_operands(info), info.summary, width);
    if (family.empty()) {
        for (const auto& [name, summary] : kFamilies)
            text += usage_line(name, summary, width);
        text += usage_line(kInfo, "how this program was built", width);
    }
    return text + "trireme COMMAND --help lists the options of a command\n";
}

} // namespace trireme::options
