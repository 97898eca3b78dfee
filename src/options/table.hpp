// The option table: one row for each option that Trireme knows, honoured or not. Parsing, checking of single
// values,
// --help, the listing at start and docs/options.md all read it; there is no second list.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trireme/options/commands.hpp"
#include "trireme/options/values.hpp"

namespace trireme::options {

enum class Group {
    layout,
    model,
    recompute,
    batch,
    training,
    optimizer,
    data,
    log,
    checkpoint,
    machine,
    generation,
    plan,
    preflight,
    general,
    megatron, // names that are known from Megatron-LM and have no value here
};

std::string_view title_of(Group group);

enum class Status {
    honoured,
    already_so, // accepted; one line at start says why nothing has to be done
    refused,    // an error that says why
    not_yet,    // an error that says that this version cannot do it
    renamed,    // an error that says the new name
};

enum class Arity { flag, one, list };
enum class Content { text, path };       // paths in a file are relative to that file
enum class Belongs { to_run, to_model }; // a checkpoint hands the model's options on to evaluate and generate

// The commands that take an option.
class Commands {
  public:
    constexpr Commands(std::initializer_list<Command> members) {
        for (const Command member : members)
            bits_ |= bit(member);
    }
    constexpr bool has(Command command) const { return (bits_ & bit(command)) != 0; }
    constexpr Commands operator|(Commands other) const {
        other.bits_ |= bits_;
        return other;
    }
    constexpr bool meets(Commands other) const { return (bits_ & other.bits_) != 0; }
    constexpr bool operator==(const Commands&) const = default;

  private:
    static constexpr std::uint32_t bit(Command command) {
        return std::uint32_t{1} << static_cast<unsigned>(command);
    }
    std::uint32_t bits_ = 0;
};
inline constexpr Commands kOnlyPlan{Command::plan};
inline constexpr Commands kOnlyPreflight{Command::preflight};
// plan foresees a training and preflight looks at where one would run: they take what it takes.
inline constexpr Commands kOnlyPretrain = Commands{Command::pretrain} | kOnlyPlan | kOnlyPreflight;
inline constexpr Commands kWithData = kOnlyPretrain | Commands{Command::evaluate};
inline constexpr Commands kOnlyGenerate{Command::generate};
inline constexpr Commands kEveryRun = kWithData | kOnlyGenerate;
inline constexpr Commands kOnlyExport{Command::checkpoint_export_hf};
inline constexpr Commands kOnlyImport{Command::checkpoint_import_hf};
inline constexpr Commands kEveryCommand =
    kEveryRun | kOnlyExport | kOnlyImport |
    Commands{Command::checkpoint_inspect, Command::checkpoint_diff, Command::checkpoint_verify};

struct Range {
    std::optional<double> at_least, above, at_most, below;
};
inline constexpr Range at_least(double bound) {
    return {bound, {}, {}, {}};
}
inline constexpr Range above(double bound) {
    return {{}, bound, {}, {}};
}
inline constexpr Range above_up_to(double bound, double last) {
    return {{}, bound, last, {}};
}
inline constexpr Range from_to_below(double first, double end) {
    return {first, {}, {}, end};
}

using Field = std::variant<std::monostate, bool Values::*, std::int64_t Values::*, double Values::*,
                           std::string Values::*, std::optional<std::int64_t> Values::*,
                           std::optional<double> Values::*, std::optional<std::string> Values::*,
                           std::vector<std::string> Values::*>;

struct Row {
    std::string_view name{};
    std::string_view also_named{};
    std::string_view placeholder{}; // in --help: N, X, DIR; empty for flags
    Field field{};
    std::string_view by_default{}; // as text; empty: absent (or false)
    Range range{};
    std::vector<std::string_view> choices{}; // already_so: the values that are accepted (all when empty)
    std::string_view help{};      // honoured: what it does; otherwise: the reason; renamed: new name
    std::string_view otherwise{}; // already_so: why other values are refused
    std::optional<Commands> commands{};
    Content content = Content::text;
    Belongs belongs = Belongs::to_run;
    Group group = Group::general;
    Status status = Status::honoured;
    Arity arity = Arity::one; // of rows with a field: deduced from it
};

// All rows, in the order in which --help shows them.
const std::vector<Row>& table();

// By name or by its other name; null if unknown.
const Row* find_row(std::string_view name);

// Appends `more` under one group; they belong to `commands` unless a row names its own.
void append(std::vector<Row>& rows, Group group, Commands commands, std::vector<Row> more);

// The parts of the table, one file each.
void add_model_rows(std::vector<Row>& rows);
std::vector<Row> shape_rows(); // the model's, beyond GPT-2's
void add_training_rows(std::vector<Row>& rows);
void add_run_rows(std::vector<Row>& rows);
void add_already_so_rows(std::vector<Row>& rows);
void add_refused_rows(std::vector<Row>& rows);

} // namespace trireme::options
