// How broken rules are reported.
#include "options/checker.hpp"

#include <algorithm>

#include "options/convert.hpp"
#include "options/table.hpp"
#include "trireme/base/error.hpp"

namespace trireme::options {

bool Checker::sound(std::initializer_list<std::string_view> names) const {
    return std::ranges::none_of(names, [&](std::string_view name) { return wrong_.contains(name); });
}

std::string Checker::shown(std::string_view name) const {
    const Row* row = find_row(name);
    TRIREME_ASSERT(row != nullptr, "no option ", name);
    const std::vector<std::string> texts = texts_of(*row, values);
    if (texts.empty())
        return concat("--", name, " (not given)");
    if (row->arity == Arity::flag)
        return concat("--", name, " (", sources.of(name), ")");
    return concat("--", name, " ", join(texts, " "), " (", sources.of(name), ")");
}

void Checker::complain(std::string what, std::initializer_list<std::string_view> names, std::string attempt,
                       std::string extra) {
    std::vector<std::string> options;
    for (const std::string_view name : names)
        options.push_back(shown(name));
    if (!extra.empty())
        options.push_back(std::move(extra));
    Problem problem{std::move(what), {join(options, ", ")}};
    if (!attempt.empty())
        problem.details.push_back(concat("try: ", attempt));
    problems_.push_back(std::move(problem));
}

void Checker::complain_about_ranks(std::string what, std::initializer_list<std::string_view> names,
                                   std::string attempt) {
    complain(std::move(what), names, std::move(attempt),
             concat("ranks ", env.ranks, " (", env.launcher, ")"));
}

void Checker::complain_missing(std::string what, std::vector<std::string> details) {
    problems_.push_back({std::move(what), std::move(details)});
}

} // namespace trireme::options
