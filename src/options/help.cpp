// The table as people read it: --help on a terminal, docs/options.md in a browser.
#include <algorithm>

#include "options/conflicts.hpp"
#include "options/convert.hpp"
#include "options/describe.hpp"
#include "trireme/base/error.hpp"
#include "trireme/options/parse.hpp"

namespace trireme::options {

std::string with_placeholder(const Row& row) {
    return row.placeholder.empty() ? concat("--", row.name) : concat("--", row.name, " ", row.placeholder);
}

std::string limits_of(const Row& row, Detail detail) {
    std::vector<std::string> parts;
    if (!row.by_default.empty())
        parts.push_back(concat("default ", row.by_default));
    const bool typed = !std::holds_alternative<std::monostate>(row.field) &&
                       (row.arity == Arity::one || !row.choices.empty());
    const bool lower_bound_only = row.range.at_least && !row.range.at_most && !row.range.below;
    if (typed && row.choices.size() != 1 && !(detail == Detail::brief && lower_bound_only)) {
        const std::string values = describe_values(row);
        if (values != "a text" && values != "a path")
            parts.push_back(values);
    } else if (typed && row.choices.size() == 1) {
        parts.push_back(concat("only ", row.choices.front()));
    }
    if (!row.also_named.empty())
        parts.push_back(concat("also --", row.also_named));
    return join(parts, "; ");
}

namespace {

constexpr std::size_t kHelpColumns = 100;

void append_wrapped(std::string& text, std::string_view words, std::size_t indent) {
    std::size_t column = 0;
    while (!words.empty()) {
        const auto end = std::min(words.find(' '), words.size());
        if (column > 0 && column + 1 + end > kHelpColumns) {
            text += '\n';
            column = 0;
        }
        text += column == 0 ? std::string(indent, ' ') : " ";
        text += words.substr(0, end);
        column = column == 0 ? indent + end : column + 1 + end;
        words.remove_prefix(std::min(end + 1, words.size()));
    }
    text += '\n';
}

std::string names_with(Status status) {
    std::vector<std::string> names;
    for (const Row& row : table())
        if (row.status == status)
            names.push_back(concat("--", row.name));
    std::ranges::sort(names);
    return join(names, ", ");
}

// A cell of a Markdown table.
std::string cell(std::string_view text) {
    std::string escaped;
    for (const char c : text)
        escaped += c == '|' ? std::string("\\|") : std::string(1, c);
    return escaped;
}

std::string commands_of(const Row& row) {
    if (*row.commands == kEveryCommand)
        return "all";
    std::vector<std::string_view> names;
    for (const CommandInfo& info : commands())
        if (row.commands->has(info.command))
            names.push_back(info.name);
    return join(names, ", ");
}

std::string own_options() {
    std::string page;
    for (int number = 0; number <= static_cast<int>(kLastOwnGroup); ++number) {
        const Group group{number};
        page += concat("\n### ", title_of(group),
                       "\n\n| option | what it does | values | commands |\n|---|---|---|---|\n");
        for (const Row& row : table())
            if (row.group == group)
                page += concat("| `", cell(with_placeholder(row)), "` | ", cell(row.help), " | ",
                               cell(limits_of(row, Detail::full)), " | ", commands_of(row), " |\n");
    }
    return page;
}

std::string conflicts_page() {
    std::string page = "\n| options | ranks | message |\n|---|---|---|\n";
    for (const Conflict& conflict : conflicts()) {
        const std::string message = message_of(conflict); // "trireme: error: WHAT\n ..."
        constexpr std::string_view kBefore = "error: ";
        const std::size_t found = message.find(kBefore);
        TRIREME_ASSERT(found != std::string::npos, conflict.arguments, " are taken: no conflict");
        const std::size_t begin = found + kBefore.size();
        page += concat("| `", cell(conflict.arguments), "` | ", conflict.ranks, " | ",
                       cell(message.substr(begin, message.find('\n') - begin)), " |\n");
    }
    return page;
}

std::string megatron_options(Status status, std::string_view column) {
    std::string page = concat("\n| option | ", column, " |\n|---|---|\n");
    for (const Row& row : table()) {
        if (row.status != status)
            continue;
        std::string text(row.help);
        if (status == Status::renamed)
            text = concat("`--", row.help, "`");
        else if (!row.choices.empty())
            text += concat("; accepted: ", join(row.choices, ", "),
                           row.otherwise.empty() ? "" : concat(" (", row.otherwise, ")"));
        page += concat("| `--", row.name, "` | ", cell(text), " |\n");
    }
    return page;
}

} // namespace

std::string help_text(Command command) {
    const CommandInfo& info = info_of(command);
    std::string text = concat("usage: trireme ", info.name, info.operands.empty() ? "" : " ", info.operands,
                              " [--config FILE] [options]\n  ", info.summary, "\n");
    for (int number = 0; number <= static_cast<int>(kLastOwnGroup); ++number) {
        const Group group{number};
        std::string rows;
        for (const Row& row : table()) {
            if (row.group != group || !row.commands->has(command))
                continue;
            rows += concat("  ", with_placeholder(row), "\n");
            const std::string limits = limits_of(row, Detail::brief);
            append_wrapped(rows, limits.empty() ? std::string(row.help) : concat(row.help, " (", limits, ")"),
                           6);
        }
        if (!rows.empty())
            text += concat("\n", title_of(group), "\n", rows);
    }
    if (!kEveryRun.has(command))
        return text;
    text +=
        "\nMegatron-LM's names that ask for what is done anyway are accepted, with a line that says why:\n";
    append_wrapped(text, names_with(Status::already_so), 2);
    text += "docs/options.md has the reasons, and the names that are refused.\n";
    return text;
}

std::string options_page() {
    std::string page = R"(# Options

This page is made from the option table (src/options/table*.cpp). After a change there, write it anew with
`TRIREME_WRITE_DOCS=1 build/tests/unit --gtest_filter='OptionsPage.*'`; a test fails while the two differ.

Names, meanings, defaults and rules are Megatron-LM's wherever Megatron-LM has the option. Names cannot be abbreviated.
`--name value` and `--name=value` are the same; of an option given twice on the command line, the last counts.

`--config FILE` reads the same names from a file: one `name = value` a line, `#` begins a comment, flags are written
`name = true`, the items of a list stand on one line, double quotes keep blanks and `#` in a value. Relative paths in the
file start at the file's directory. The command line wins over the file. One file may serve several commands: options
of other commands in it are checked and not used. `trireme plan` and `trireme preflight` take all options of pretrain besides their
own.

All mistakes are reported together, with the values, where they came from and what to try; the exit code is 2.

## Honoured
)";
    page += own_options();
    page += R"(
## What does not go together

An example for each rule between options: added to a run of 4 layers, hidden size 8, 4 heads and sequences of 16, with
micro-batches of 1, for 10 iterations (or 1000 samples). An option that would do nothing beside the others is refused, not
ignored. The message goes on with the values, where they came from, and what to try.
)";
    page += conflicts_page();
    page += "\n## Already so\n\nAccepted, because Trireme does that anyway; one line at start says why.\n";
    page += megatron_options(Status::already_so, "why nothing has to be done");
    page += "\n## Not in this version\n\nAn error that says so; the second column says what holds instead.\n";
    page += megatron_options(Status::not_yet, "instead");
    page += "\n## Refused\n";
    page += megatron_options(Status::refused, "why");
    page += "\n## Renamed\n\nNames that Megatron-LM has removed.\n";
    page += megatron_options(Status::renamed, "new name");
    return page;
}

} // namespace trireme::options
