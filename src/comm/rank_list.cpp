// Ranks as a person reads them: runs are joined, and the list stays on one line on any number of ranks.
#include "comm/rank_list.hpp"

#include "trireme/base/error.hpp"

namespace trireme::comm {

std::string rank_list(const std::vector<int>& ranks) {
    constexpr int kRuns = 12;
    std::string text = ranks.size() == 1 ? "rank " : "ranks ";
    int runs = 0;
    for (std::size_t first = 0; first < ranks.size();) {
        std::size_t last = first;
        while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1)
            ++last;
        if (runs++ == kRuns)
            return concat(text, ", ... (", ranks.size(), " ranks)");
        text += concat(first == 0 ? "" : ", ", ranks[first]);
        if (last > first)
            text += concat(last == first + 1 ? ", " : "-", ranks[last]);
        first = last + 1;
    }
    return text;
}

} // namespace trireme::comm
