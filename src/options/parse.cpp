// Merges the three places that options come from. Boost.Program_options cuts the command line into names and
// values (it is told that every option takes any number of values, so that it never stops at the first
// mistake); what the values mean, and every message, comes from the option table.
#include "trireme/options/parse.hpp"

#include <algorithm>
#include <boost/program_options.hpp>
#include <filesystem>
#include <limits>

#include "options/config_file.hpp"
#include "options/convert.hpp"
#include "options/suggest.hpp"
#include "options/table.hpp"
#include "trireme/base/error.hpp"
#include "trireme/base/file.hpp"

namespace trireme::options {
namespace {

namespace po = boost::program_options;

constexpr std::string_view kCommandLine = "command line";

// One option as the user wrote it.
struct Written {
    std::string name;
    std::vector<std::string> texts;
    std::string where;          // kCommandLine or FILE:LINE
    std::filesystem::path base; // relative paths start here; empty: the working directory
};

std::string as_written(const Written& option) {
    std::string text = concat("--", option.name);
    for (const std::string& value : option.texts)
        text += concat(" ", value);
    return concat(text, " (", option.where, ")");
}

class Merger {
  public:
    explicit Merger(Parsed& parsed) : parsed_(parsed) {}

    void take(const Written& option) {
        const Row* row = find_row(option.name);
        if (row == nullptr)
            return unknown(option);
        if (is_switched_off(option, *row))
            return;
        switch (row->status) {
        case Status::honoured:
            return honour(option, *row);
        case Status::already_so:
            return note(option, *row);
        case Status::not_yet:
            return complain(*row, option,
                            concat("--", option.name, " is not in this version of trireme: ", row->help));
        case Status::refused:
            return complain(*row, option, concat("--", option.name, " cannot be taken: ", row->help));
        case Status::renamed:
            return complain(*row, option, concat("--", option.name, " is now --", row->help));
        }
    }

    void complain(const Row& row, const Written& option, std::string what) {
        parsed_.problems.push_back({std::move(what), {as_written(option)}});
        parsed_.wrong.insert(std::string(row.name));
    }

  private:
    void unknown(const Written& option) {
        Problem problem{concat("--", option.name, " is not an option of trireme ", name_of(parsed_.command)),
                        {as_written(option)}};
        if (std::string hint = suggestion_for(option.name, parsed_.command); !hint.empty())
            problem.details.push_back(std::move(hint));
        parsed_.problems.push_back(std::move(problem));
    }

    // In a file `flag = false` says nothing more than leaving the line out, for any kind of flag.
    static bool is_switched_off(const Written& option, const Row& row) {
        const bool valueless = row.arity == Arity::flag || row.status == Status::not_yet;
        return option.where != kCommandLine && valueless && option.texts == std::vector<std::string>{"false"};
    }

    void honour(const Written& option, const Row& row) {
        const bool in_file = option.where != kCommandLine;
        if (!in_file && !row.commands->has(parsed_.command)) {
            const auto owner = std::ranges::find_if(
                commands(), [&](const CommandInfo& info) { return row.commands->has(info.command); });
            return complain(row, option,
                            concat("--", row.name, " is an option of trireme ", owner->name, ", not of ",
                                   name_of(parsed_.command)));
        }
        if (in_file && std::holds_alternative<std::monostate>(row.field))
            return complain(row, option, concat("--", row.name, " belongs on the command line"));
        if (row.arity == Arity::flag && in_file && option.texts.empty())
            return complain(row, option, concat(row.name, " has no value: write ", row.name, " = true"));
        if (row.arity == Arity::flag && !in_file && !option.texts.empty())
            return complain(row, option, concat("--", row.name, " is a flag: nothing follows it"));
        if (const auto wrong = assign(row, resolved_paths(option, row), parsed_.values))
            return complain(row, option, *wrong);
        parsed_.sources.set(row.name, option.where);
        parsed_.wrong.erase(std::string(row.name));
    }

    void note(const Written& option, const Row& row) {
        const bool as_flag = option.texts.empty() || option.texts == std::vector<std::string>{"true"};
        if (row.arity == Arity::flag && !as_flag)
            return complain(row, option, concat("--", row.name, " is a flag: nothing follows it"));
        if (row.arity != Arity::flag && option.texts.empty())
            return complain(row, option, concat("--", row.name, " takes a value, but none follows it"));
        if (row.arity == Arity::one && option.texts.size() > 1)
            return complain(row, option,
                            concat("--", row.name, " takes one value, not ", option.texts.size()));
        for (const std::string& text : option.texts)
            if (!row.choices.empty() && std::ranges::find(row.choices, text) == row.choices.end()) {
                std::string what =
                    concat("--", row.name, " takes ", describe_values(row), ", not '", text, "'");
                if (!row.otherwise.empty())
                    what += concat(": ", row.otherwise);
                return complain(row, option, std::move(what));
            }
        parsed_.sources.set(row.name, option.where);
        parsed_.notes.push_back(concat(as_written(option), ": already so, ", row.help));
    }

    static std::vector<std::string> resolved_paths(const Written& option, const Row& row) {
        std::vector<std::string> texts = option.texts;
        if (row.content != Content::path || option.base.empty())
            return texts;
        for (std::string& text : texts) {
            const bool weight = row.arity == Arity::list && to_number(text).has_value();
            if (!weight && !text.empty())
                text = (option.base / text).lexically_normal().string();
        }
        return texts;
    }

    Parsed& parsed_;
};

po::options_description every_option() {
    po::options_description description;
    for (const Row& row : table())
        for (const std::string_view name : {row.name, row.also_named})
            if (!name.empty())
                description.add_options()(std::string(name).c_str(),
                                          po::value<std::vector<std::string>>()->multitoken()->zero_tokens());
    return description;
}

// How many values an option takes at most, so that those after them are operands of the command.
std::size_t most_values(const std::string& name) {
    const Row* row = find_row(name);
    if (row == nullptr || row->arity == Arity::list)
        return std::numeric_limits<std::size_t>::max();
    return row->arity == Arity::flag ? 0 : 1;
}

// What does not belong to an option goes to `operands`, if the command takes some.
std::vector<Written> cut_command_line(Command command, std::span<const std::string> arguments,
                                      std::vector<std::string>& operands, std::vector<Problem>& problems) {
    const bool takes_operands = !info_of(command).operands.empty();
    namespace style = po::command_line_style;
    std::vector<Written> written;
    try {
        const po::options_description description = every_option();
        const auto cut = po::command_line_parser(std::vector<std::string>(arguments.begin(), arguments.end()))
                             .options(description)
                             .style(style::allow_long | style::long_allow_adjacent | style::long_allow_next)
                             .allow_unregistered()
                             .run();
        bool after_unknown = false; // values of an unknown option are part of that one mistake
        for (const po::option& option : cut.options) {
            if (!option.string_key.empty()) {
                written.push_back({option.string_key, option.value, std::string(kCommandLine), {}});
                after_unknown = option.unregistered;
                std::vector<std::string>& texts = written.back().texts;
                if (const std::size_t most = most_values(option.string_key);
                    takes_operands && texts.size() > most) {
                    operands.insert(operands.end(), texts.begin() + static_cast<std::ptrdiff_t>(most),
                                    texts.end());
                    texts.resize(most);
                }
            } else if (after_unknown) {
                written.back().texts.insert(written.back().texts.end(), option.value.begin(),
                                            option.value.end());
            } else if (takes_operands) {
                operands.insert(operands.end(), option.value.begin(), option.value.end());
            } else {
                problems.push_back({concat("unexpected '", join(option.value, " "), "' on the command line"),
                                    {"try: options start with two dashes, and values follow their option"}});
            }
        }
    } catch (const po::error& error) {
        problems.push_back({concat("the command line cannot be read: ", error.what()), {}});
    }
    return written;
}

void take_file(const std::string& path, std::vector<Written>& options, std::vector<Problem>& problems) {
    std::string text;
    try {
        text = read_file(path, ErrorCategory::usage);
    } catch (const Error& error) {
        problems.push_back({error.what(), error.details()});
        problems.back().details.push_back(concat("--config ", path, " (command line)"));
        return;
    }
    std::filesystem::path base = std::filesystem::path(path).parent_path();
    for (ConfigLine& line : read_config(text, path, problems))
        options.push_back({std::move(line.name), std::move(line.texts), std::move(line.where), base});
}

} // namespace

Parsed parse(Command command, std::span<const std::string> arguments, const Inherited& inherited) {
    Parsed parsed;
    parsed.command = command;
    parsed.values = default_values();
    parsed.inherited_from = inherited.name;
    Merger merger(parsed);

    for (ConfigLine& line : read_config(inherited.text, inherited.name, parsed.problems)) {
        const Row* row = find_row(line.name);
        if (row != nullptr && row->belongs == Belongs::to_model)
            merger.take({std::move(line.name), std::move(line.texts), inherited.name, {}});
    }

    std::vector<Written> from_file;
    std::vector<Written> from_command_line;
    std::string config;
    const std::size_t problems_before = parsed.problems.size();
    for (Written& option : cut_command_line(command, arguments, parsed.operands, parsed.problems)) {
        if (option.name == "help") {
            parsed.help_requested = true;
        } else if (option.name != "config") {
            from_command_line.push_back(std::move(option));
        } else if (option.texts.size() != 1 || !config.empty()) {
            merger.complain(*find_row("config"), option, "--config takes one file, once");
        } else {
            config = option.texts[0];
            take_file(config, from_file, parsed.problems);
        }
    }
    parsed.unread = parsed.problems.size() > problems_before; // only readers have reported so far
    for (const Written& option : from_file)
        merger.take(option);
    for (const Written& option : from_command_line)
        merger.take(option);
    if (const std::vector<std::string_view> wanted = operands_of(command);
        parsed.operands.size() != wanted.size() && !parsed.help_requested)
        parsed.problems.push_back(
            {concat("trireme ", name_of(command), " takes ", info_of(command).operands, ", not ",
                    parsed.operands.empty() ? "nothing" : concat("'", join(parsed.operands, " "), "'")),
             {concat("try: trireme ", name_of(command), " --help")}});
    return parsed;
}

void throw_problems(const std::vector<Problem>& problems) {
    if (problems.empty())
        return;
    if (problems.size() == 1)
        throw Error(ErrorCategory::usage, problems[0].what, problems[0].details);
    std::vector<std::string> details;
    for (std::size_t i = 0; i < problems.size(); ++i) {
        details.push_back(concat(i + 1, ". ", problems[i].what));
        for (const std::string& line : problems[i].details)
            details.push_back(concat("   ", line));
    }
    throw Error(ErrorCategory::usage, concat(problems.size(), " mistakes in the options"),
                std::move(details));
}

std::string to_config(const Values& values, const Sources& sources, Kept kept) {
    std::string text;
    for (const Row& row : table()) {
        const bool of_no_run = !row.commands->meets(kEveryRun);
        if (of_no_run || (kept == Kept::model && row.belongs != Belongs::to_model))
            continue;
        std::vector<std::string> texts = texts_of(row, values);
        if (texts.empty() || (row.belongs == Belongs::to_run && sources.derived(row.name)))
            continue;
        for (std::string& item : texts) {
            const bool path = row.content == Content::path && !(row.arity == Arity::list && to_number(item));
            item = quoted_if_needed(path ? std::filesystem::absolute(item).lexically_normal().string() : item,
                                    row.arity);
        }
        text += concat(row.name, " = ", join(texts, " "), "\n");
    }
    return text;
}

} // namespace trireme::options
