// From the command line and a --config file to Values. Nothing is checked here beyond each option by itself,
// and nothing is thrown for a user's mistake: problems are collected, so that resolve() reports them together
// with the contradictions between options.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/options/commands.hpp"
#include "trireme/options/values.hpp"

namespace trireme::options {

// One mistake: what happened in a line, then the options with their values, the rule and what to try.
struct Problem {
    std::string what;
    std::vector<std::string> details;
};

struct Parsed {
    Command command = Command::pretrain;
    Values values;
    Sources sources;
    std::vector<std::string> operands; // what the command takes without an option
    bool help_requested = false;
    bool unread = false;            // a part could not be read at all: what is missing may stand there
    std::vector<std::string> notes; // options that are already so here: one line each, shown at start
    std::string inherited_from;     // the source of what a checkpoint handed on; "": there was none
    std::vector<Problem> problems;  // thrown by resolve() or throw_problems()
    std::set<std::string, std::less<>> wrong; // options named in problems: their values mean nothing
};

// Options that a checkpoint brings along: `text` as written by to_config(), `name` for messages.
struct Inherited {
    std::string text;
    std::string name;
};

// `arguments`: what follows the words of the command. The command line wins over --config FILE, which wins
// over the model options (shape, tokenizer, type) of `inherited`; all other names in `inherited` are left
// aside.
Parsed parse(Command command, std::span<const std::string> arguments, const Inherited& inherited = {});

// One Error (usage) that holds all of them; returns if there are none.
void throw_problems(const std::vector<Problem>& problems);

// `name = value` lines that --config reads back to the same values (paths made absolute): what a checkpoint
// keeps. Left out: what was derived for this run alone (steps of accumulation, threads), as another layout
// derives its own. Of a model that no run has made: its own options alone.
enum class Kept { all, model };
std::string to_config(const Values& values, const Sources& sources, Kept kept = Kept::all);

// The text of `trireme COMMAND --help`, by groups.
std::string help_text(Command command);

// docs/options.md, made from the table.
std::string options_page();

} // namespace trireme::options
