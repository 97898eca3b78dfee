// A timeline as text, for terminals and tests; the letters are explained in the header.
#include <cmath>

#include "schedule_parts.hpp"
#include "trireme/base/error.hpp"

namespace trireme::topology {

namespace {

char symbol(const Instruction& instruction) {
    const char first = instruction.op == Op::forward           ? '0'
                       : instruction.op == Op::weight_gradient ? 'A'
                                                               : 'a';
    return static_cast<char>(first + instruction.micro_batch % 10);
}

} // namespace

std::string draw_text(const Timeline& timeline, double seconds_per_column) {
    TRIREME_ASSERT(seconds_per_column > 0, seconds_per_column, " s a column");
    // A hair less than the whole, so that a sum of rounded durations does not open a column of its own.
    const auto columns =
        static_cast<std::size_t>(std::ceil(timeline.seconds / seconds_per_column * (1 - 1e-12)));
    const std::size_t width = std::to_string(timeline.ranks.size() - 1).size();
    std::string chart;
    for (std::size_t s = 0; s < timeline.ranks.size(); ++s) {
        std::string label = std::to_string(s);
        label.insert(0, width - label.size(), ' ');
        std::string line(columns, '.');
        const auto& rank = timeline.ranks[s];
        std::size_t running = 0;
        for (std::size_t column = 0; column < columns; ++column) {
            const double middle = (static_cast<double>(column) + 0.5) * seconds_per_column;
            while (running < rank.size() && rank[running].end <= middle)
                ++running;
            if (running < rank.size() && rank[running].start <= middle)
                line[column] = symbol(rank[running].instruction);
        }
        chart += concat("stage ", label, "  ", line, "\n");
    }
    return chart;
}

} // namespace trireme::topology
