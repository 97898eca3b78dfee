// Abbreviations (an error, as in Megatron-LM), underscores for hyphens, and small edit distances.
#include "options/suggest.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "options/convert.hpp"
#include "options/table.hpp"
#include "trireme/base/error.hpp"

namespace trireme::options {
namespace {

// Levenshtein distance, one row at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
        }
    }
    return row[b.size()];
}

bool suggestible(const Row& row, Command command) {
    return row.commands->has(command) && (row.status == Status::honoured || row.status == Status::already_so);
}

} // namespace

std::string suggestion_for(std::string_view unknown, Command command) {
    std::string hyphenated(unknown);
    std::ranges::replace(hyphenated, '_', '-');
    if (const Row* row = find_row(hyphenated); row != nullptr && suggestible(*row, command))
        return concat("try: --", hyphenated);

    std::vector<std::string> longer;
    std::string_view nearest;
    std::size_t smallest = std::max<std::size_t>(2, unknown.size() / 4) + 1;
    for (const Row& row : table()) {
        if (!suggestible(row, command))
            continue;
        if (row.name.starts_with(unknown))
            longer.push_back(concat("--", row.name));
        if (const std::size_t distance = edit_distance(hyphenated, row.name); distance < smallest) {
            smallest = distance;
            nearest = row.name;
        }
    }
    // The nearest first.
    std::ranges::sort(longer, {}, &std::string::size);
    if (!longer.empty())
        return concat("names cannot be abbreviated; try: ", join(longer, " or "));
    return nearest.empty() ? "" : concat("try: --", nearest);
}

} // namespace trireme::options
