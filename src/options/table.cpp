// Puts the table together and finds rows in it.
#include "options/table.hpp"

#include <map>

#include "options/convert.hpp"
#include "trireme/base/error.hpp"

namespace trireme::options {
namespace {

Arity arity_of(const Row& row) {
    if (std::holds_alternative<std::monostate>(row.field))
        return row.arity;
    if (std::holds_alternative<bool Values::*>(row.field))
        return Arity::flag;
    return std::holds_alternative<std::vector<std::string> Values::*>(row.field) ? Arity::list : Arity::one;
}

std::vector<Row> build_table() {
    std::vector<Row> rows;
    add_model_rows(rows);
    add_training_rows(rows);
    add_run_rows(rows);
    add_already_so_rows(rows);
    add_refused_rows(rows);
    for (Row& row : rows)
        row.arity = arity_of(row);
    return rows;
}

std::map<std::string_view, const Row*> build_index() {
    std::map<std::string_view, const Row*> index;
    for (const Row& row : table())
        for (const std::string_view name : {row.name, row.also_named})
            if (!name.empty())
                TRIREME_ASSERT(index.emplace(name, &row).second, "option ", name,
                               " stands twice in the table");
    return index;
}

} // namespace

const std::vector<Row>& table() {
    static const std::vector<Row> rows = build_table();
    return rows;
}

const Row* find_row(std::string_view name) {
    static const std::map<std::string_view, const Row*> index = build_index();
    const auto found = index.find(name);
    return found == index.end() ? nullptr : found->second;
}

void append(std::vector<Row>& rows, Group group, Commands commands, std::vector<Row> more) {
    for (Row& row : more) {
        row.group = group;
        row.commands = row.commands.value_or(commands);
        rows.push_back(std::move(row));
    }
}

std::string_view title_of(Group group) {
    switch (group) {
    case Group::layout:
        return "Layout";
    case Group::model:
        return "Model";
    case Group::recompute:
        return "Recompute";
    case Group::batch:
        return "Batch";
    case Group::training:
        return "Training";
    case Group::optimizer:
        return "Optimizer and learning rate";
    case Group::data:
        return "Data and tokenizer";
    case Group::log:
        return "Log and evaluation";
    case Group::checkpoint:
        return "Checkpoints";
    case Group::machine:
        return "Machine";
    case Group::generation:
        return "Generation";
    case Group::general:
        return "General";
    case Group::megatron:
        return "Megatron-LM";
    }
    return "";
}

Values default_values() {
    Values values;
    for (const Row& row : table()) {
        if (row.by_default.empty())
            continue;
        const auto wrong = assign(row, {std::string(row.by_default)}, values);
        TRIREME_ASSERT(!wrong, "default of --", row.name, ": ", wrong.value_or(""));
    }
    return values;
}

} // namespace trireme::options
