// Tijdeman's algorithm for the chairman assignment problem (R. Tijdeman, "The chairman assignment problem",
// Discrete Mathematics 32, 1980), as a schedule of jobs: the c-th sample (from 0) of a member with share s
// may come at step t (from 1) once s t - c >= 1 / (2k - 2), and of those that may, the one comes that must
// come first, by the deadline t <= (c + 1 - 1 / (2k - 2)) / s. Then no member is ever off by more than 1 - 1
// / (2k - 2) samples. All of it in whole numbers.
#include "trireme/data/blend.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <queue>

#include "trireme/base/error.hpp"
#include "trireme/base/sizes.hpp"

namespace trireme::data {
namespace {

bool read_number(const std::string& word, double& value) {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    return error == std::errc() && end == word.data() + word.size();
}

// The nearest multiples of 2^-20 that sum to 1 (largest remainders), none of them 0.
std::vector<std::int64_t> units_of(const std::vector<double>& weights) {
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    const std::size_t count = weights.size();
    std::vector<std::int64_t> units(count);
    std::vector<double> remainder(count);
    std::vector<std::size_t> order(count);
    for (std::size_t member = 0; member < count; ++member) {
        const double exact = weights[member] / sum * static_cast<double>(Blend::kUnits);
        units[member] = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(exact)));
        remainder[member] = exact - static_cast<double>(units[member]);
        order[member] = member;
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return remainder[a] > remainder[b]; });
    std::int64_t left = Blend::kUnits - std::accumulate(units.begin(), units.end(), std::int64_t{0});
    for (std::size_t place = 0; left > 0; place = (place + 1) % count, --left)
        ++units[order[place]];
    // Members raised to one unit are paid for by the largest.
    for (; left < 0; ++left)
        --*std::max_element(units.begin(), units.end());
    return units;
}

} // namespace

std::vector<BlendWord> parse_blend(const std::vector<std::string>& words, const std::string& option) {
    std::string given = option;
    for (const std::string& word : words)
        given += " " + word;
    const auto refuse = [&](const std::string& why) {
        throw Error(ErrorCategory::usage, why,
                    {given, concat("needed: one prefix; several prefixes; or WEIGHT PREFIX pairs, as in ",
                                   option, " 0.7 wikipedia 0.3 books")});
    };
    if (words.empty())
        throw Error(ErrorCategory::usage,
                    concat(option, " is missing: the prefix of a .bin/.idx pair is needed"));
    std::vector<BlendWord> members;
    double weight = 0;
    std::size_t numbers = 0; // among the words where weights would stand
    for (std::size_t place = 0; place < words.size(); place += 2)
        numbers += read_number(words[place], weight);
    if (words.size() == 1 || numbers == 0) {
        for (const std::string& word : words)
            members.push_back({word, 0});
        return members;
    }
    if (words.size() % 2 != 0)
        refuse(concat("an odd number of words in ", option, " are prefixes without weights, but ",
                      numbers == 1 ? "one of them is a number" : "some of them are numbers"));
    for (std::size_t place = 0; place < words.size(); place += 2) {
        if (!read_number(words[place], weight))
            refuse(concat("a weight is missing in ", option, " before ", words[place]));
        if (!std::isfinite(weight) || !(weight > 0))
            refuse(concat("weight ", words[place], " in ", option, " is not a positive number"));
        members.push_back({words[place + 1], weight});
    }
    return members;
}

Blend::Blend(const std::vector<double>& weights) {
    const std::size_t count = weights.size();
    TRIREME_ASSERT(count > 0, "a blend of nothing");
    if (count > std::numeric_limits<std::uint16_t>::max())
        throw Error(ErrorCategory::usage,
                    concat("a blend of ", count, " data sets: at most 65535 are possible"),
                    {"try: trireme-data merge"});
    units_ = units_of(weights);
    std::int64_t divisor = kUnits;
    for (const std::int64_t unit : units_)
        divisor = std::gcd(divisor, unit);
    const std::int64_t period = kUnits / divisor;
    for (const std::int64_t unit : units_)
        in_period_.push_back(unit / divisor);
    member_.assign(static_cast<std::size_t>(period), 0);
    so_far_.assign(static_cast<std::size_t>(period), 0);
    if (count == 1)
        return;

    // Example, shares 3/4 and 1/4 (k = 2, so 1 / (2k - 2) = 1/2): the members' jobs may come at steps 1, 2, 4
    // and 2, and must by 1, 2, 3 (of 2/3, 2, 10/3) and 2: the period is 0, 0, 1, 0 or so.
    const std::int64_t slack = 2 * static_cast<std::int64_t>(count) - 2;
    struct Job {
        std::int64_t deadline; // times slack * share / period
        std::int64_t share;    // samples in a period
        std::size_t member;
        bool operator>(const Job& other) const {
            const std::int64_t mine = deadline * other.share, its = other.deadline * share;
            return mine != its ? mine > its : member > other.member;
        }
    };
    std::vector<std::int64_t> drawn(count, 0);
    std::priority_queue<Job, std::vector<Job>, std::greater<>> open;
    using Release = std::pair<std::int64_t, std::size_t>; // step, member
    std::priority_queue<Release, std::vector<Release>, std::greater<>> later;
    const auto announce = [&](std::size_t member) {
        if (drawn[member] < in_period_[member])
            later.emplace(divide_round_up((slack * drawn[member] + 1) * period, slack * in_period_[member]),
                          member);
    };
    for (std::size_t member = 0; member < count; ++member)
        announce(member);
    for (std::int64_t step = 1; step <= period; ++step) {
        for (; !later.empty() && later.top().first <= step; later.pop()) {
            const std::size_t member = later.top().second;
            open.push({slack * (drawn[member] + 1) - 1, in_period_[member], member});
        }
        TRIREME_ASSERT(!open.empty(), "no member of a blend may come at step ", step);
        const std::size_t member = open.top().member;
        open.pop();
        const auto place = static_cast<std::size_t>(step - 1);
        member_[place] = static_cast<std::uint16_t>(member);
        so_far_[place] = static_cast<std::uint32_t>(drawn[member]++);
        announce(member);
    }
}

Blend::Turn Blend::turn(std::int64_t sample) const {
    TRIREME_ASSERT(sample >= 0, "sample ", sample);
    const auto place = static_cast<std::size_t>(sample % period());
    const std::size_t member = member_[place];
    return {member, sample / period() * in_period_[member] + so_far_[place]};
}

} // namespace trireme::data
