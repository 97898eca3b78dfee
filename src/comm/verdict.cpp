// Who is behind.
#include "comm/verdict.hpp"

#include <algorithm>
#include <map>

#include "comm/rank_list.hpp"
#include "trireme/base/sizes.hpp"

namespace trireme::comm {

namespace {

std::string place(const RankState& state) {
    std::string text = concat("in phase '", state.phase);
    if (state.number >= 0)
        text += concat(" ", state.number);
    text += "'";
    if (state.iteration >= 0)
        text += concat(", iteration ", state.iteration);
    return text;
}

std::string awaited(const RankState& state) {
    std::string text = concat(state.what, " of the ", state.group);
    if (state.peer >= 0)
        text += concat(" (rank ", state.peer, ")");
    return text;
}

std::string seconds(double value) {
    return show_duration(value);
}

// The ranks that hold up the others, the likeliest first.
std::vector<int> find_behind(std::span<const std::optional<RankState>> states, double timeout_seconds) {
    std::vector<int> behind;
    const auto of = [&](int r) -> const std::optional<RankState>& {
        return states[static_cast<std::size_t>(r)];
    };
    const int ranks = static_cast<int>(states.size());
    for (int r = 0; r < ranks; ++r)
        if (!of(r))
            behind.push_back(r);
    if (!behind.empty())
        return behind;

    for (int r = 0; r < ranks; ++r)
        if (!of(r)->waits())
            behind.push_back(r);
    if (!behind.empty()) {
        std::ranges::sort(behind, [&](int a, int b) { return of(a)->quiet_seconds > of(b)->quiet_seconds; });
        // A rank that moved on a moment ago only happens to be between two waits, if another has not moved
        // for long.
        if (of(behind.front())->quiet_seconds > timeout_seconds / 2)
            std::erase_if(behind, [&](int r) { return of(r)->quiet_seconds < timeout_seconds / 10; });
        return behind;
    }

    std::int64_t earliest = of(0)->iteration, latest = of(0)->iteration;
    for (const auto& state : states) {
        earliest = std::min(earliest, state->iteration);
        latest = std::max(latest, state->iteration);
    }
    if (earliest < latest)
        for (int r = 0; r < ranks; ++r)
            if (of(r)->iteration == earliest)
                behind.push_back(r);
    return behind;
}

} // namespace

Error judge(std::span<const std::optional<RankState>> states, const std::vector<std::string>& hosts,
            double timeout_seconds, double answer_seconds) {
    const std::vector<int> behind = find_behind(states, timeout_seconds);
    std::map<std::string, std::vector<int>> waits; // for what, which ranks
    std::vector<int> waiting;
    for (std::size_t r = 0; r < states.size(); ++r)
        if (states[r] && states[r]->waits() &&
            std::ranges::find(behind, static_cast<int>(r)) == behind.end()) {
            waiting.push_back(static_cast<int>(r));
            waits[awaited(*states[r])].push_back(static_cast<int>(r));
        }
    const auto who = [&](int r) { return concat("rank ", r, " on ", hosts[static_cast<std::size_t>(r)]); };
    const auto doing = [&](int r) -> std::string {
        const auto& state = states[static_cast<std::size_t>(r)];
        if (!state)
            return concat("does not answer (asked ", seconds(answer_seconds), " ago)");
        if (state->waits())
            return concat(place(*state), ", waits in ", awaited(*state), " for ",
                          seconds(state->waiting_seconds));
        return concat(place(*state), ", for ", seconds(state->quiet_seconds));
    };

    std::string headline;
    std::vector<std::string> details;
    if (behind.empty()) {
        headline = concat("all ", states.size(), " ranks wait for one another");
    } else {
        headline = concat(who(behind.front()), " is behind: ", doing(behind.front()));
        constexpr std::size_t kShown = 8;
        for (std::size_t i = 1; i < std::min(behind.size(), kShown); ++i)
            details.push_back(concat("also behind: ", who(behind[i]), ": ", doing(behind[i])));
        if (behind.size() > kShown)
            details.push_back(concat("and ", behind.size() - kShown, " other ranks"));
    }
    if (!waits.empty()) {
        const auto most =
            std::ranges::max_element(waits, {}, [](const auto& entry) { return entry.second.size(); });
        headline += concat("; ", most->second.size(),
                           most->second.size() == 1 ? " rank waits" : " ranks wait", " in ", most->first);
        for (const auto& [what, ranks] : waits) {
            const RankState& state = *states[static_cast<std::size_t>(ranks.front())];
            details.push_back(concat(rank_list(ranks), ranks.size() == 1 ? " waits" : " wait", " in ", what,
                                     ", ", place(state), ", for ", seconds(state.waiting_seconds)));
        }
    }
    if (!behind.empty()) {
        const auto& state = states[static_cast<std::size_t>(behind.front())];
        const std::string& host = hosts[static_cast<std::size_t>(behind.front())];
        details.push_back(
            state ? concat("try: on ", host, ": gdb -p ", state->process, " -batch -ex 'thread apply all bt'")
                  : concat("try: whether ", host, " is up and its process runs (stopped, swapping, killed)"));
    }
    details.push_back(concat(
        "the limit is ", seconds(timeout_seconds),
        " in one communication; try: a longer --distributed-timeout-minutes if this work may take so long"));
    return Error(ErrorCategory::communication, headline, std::move(details));
}

Error judge_end(std::span<const std::optional<RankState>> states, const std::vector<std::string>& hosts,
                double answer_seconds) {
    std::vector<int> silent;
    std::map<std::string, std::vector<int>> doing; // what, which ranks
    for (std::size_t r = 0; r < states.size(); ++r) {
        if (!states[r])
            silent.push_back(static_cast<int>(r));
        else if (states[r]->waits())
            doing[concat(place(*states[r]), ", waiting in ", awaited(*states[r]))].push_back(
                static_cast<int>(r));
        else
            doing[place(*states[r])].push_back(static_cast<int>(r));
    }
    TRIREME_ASSERT(!silent.empty(), "all ranks answer");
    const std::string& host = hosts[static_cast<std::size_t>(silent.front())];
    std::vector<std::string> details;
    constexpr std::size_t kShown = 8;
    for (const auto& [what, ranks] : doing)
        if (details.size() < kShown)
            details.push_back(concat(rank_list(ranks), ranks.size() == 1 ? " was " : " were ", what));
    details.emplace_back("nothing is saved now: a save needs all ranks; the last checkpoint is whole");
    details.push_back(concat("try: what ended ", silent.size() == 1 ? "that rank" : "these ranks",
                             ": its own words above, dmesg on ", host,
                             " (out of memory?), the scheduler's log"));
    return Error(ErrorCategory::communication,
                 concat("the job is being ended, and ", rank_list(silent), " (", host, ") ",
                        silent.size() == 1 ? "does" : "do", " not answer (asked ", seconds(answer_seconds),
                        " ago)"),
                 std::move(details));
}

} // namespace trireme::comm
