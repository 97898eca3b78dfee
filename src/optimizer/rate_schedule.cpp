// The schedule of rates, and its text.
#include "trireme/optimizer/rate_schedule.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>
#include <sstream>
#include <string_view>

#include "trireme/base/error.hpp"

namespace trireme::optimizer {
namespace {

double half_cosine(double ratio) {
    return (std::cos(std::numbers::pi * ratio) + 1) / 2;
}

double anneal(AnnealStyle style, double ratio) {
    switch (style) {
    case AnnealStyle::exponential:
        return 2 * std::pow(0.5, ratio) - 1;
    case AnnealStyle::linear:
        return 1 - ratio;
    case AnnealStyle::cosine:
        return half_cosine(ratio);
    case AnnealStyle::minus_square_root:
        return 1 - std::sqrt(ratio);
    }
    return 0;
}

constexpr std::array kDecayStyles{"constant", "linear", "cosine", "inverse-square-root", "WSD"};
constexpr std::array kAnnealStyles{"exponential", "linear", "cosine", "minus_sqrt"};
constexpr std::array kIncreaseStyles{"constant", "linear", "cosine"};

// The one list of the schedule's fields: visit(name, field) or visit(name, field, names of its values).
template <class Schedule, class Visit>
void for_each_field(Schedule& schedule, const Visit& visit) {
    auto& rate = schedule.learning_rate;
    auto& decay = schedule.weight_decay;
    visit("lr", rate.maximum);
    visit("min-lr", rate.minimum);
    visit("lr-warmup-init", rate.warmup_start);
    visit("lr-decay-style", rate.style, kDecayStyles);
    visit("lr-warmup-samples", rate.warmup_samples);
    visit("lr-decay-samples", rate.decay_samples);
    visit("lr-wsd-decay-style", rate.anneal_style, kAnnealStyles);
    visit("lr-wsd-decay-samples", rate.anneal_samples);
    visit("start-weight-decay", decay.start);
    visit("end-weight-decay", decay.end);
    visit("weight-decay-incr-style", decay.style, kIncreaseStyles);
    visit("weight-decay-incr-samples", decay.increase_samples);
}

struct Line {
    std::string name, value;
};

std::vector<Line> lines_of(const RateSchedule& schedule) {
    std::vector<Line> lines;
    for_each_field(schedule, [&](const char* name, auto value, const auto&... names) {
        if constexpr (sizeof...(names) > 0) {
            lines.push_back({name, (names[static_cast<std::size_t>(value)], ...)});
        } else {
            std::array<char, 32> text{};
            const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
            lines.push_back({name, {text.data(), end}});
        }
    });
    return lines;
}

template <class Number>
bool parse(const std::string& text, Number& number) {
    const char* const end = text.data() + text.size();
    const auto [stop, failure] = std::from_chars(text.data(), end, number);
    return failure == std::errc{} && stop == end;
}

template <class Enum, class Names>
bool parse(const std::string& text, Enum& value, const Names& names) {
    const auto found = std::ranges::find(names, std::string_view(text));
    value = static_cast<Enum>(found - names.begin());
    return found != names.end();
}

} // namespace

double LearningRate::at(std::int64_t samples) const {
    const auto n = static_cast<double>(samples);
    const auto warmup = static_cast<double>(warmup_samples), decay = static_cast<double>(decay_samples);
    if (warmup_samples > 0 && samples <= warmup_samples)
        return warmup_start + (maximum - warmup_start) * n / warmup;
    if (style == DecayStyle::constant)
        return maximum;
    if (samples > decay_samples)
        return minimum;
    if (style == DecayStyle::inverse_square_root)
        return std::max(minimum, maximum * std::sqrt(std::max(warmup, 1.0)) / std::sqrt(std::max(n, 1.0)));
    const double ratio = (n - warmup) / (decay - warmup);
    double share = 1;
    if (style == DecayStyle::linear)
        share = 1 - ratio;
    else if (style == DecayStyle::cosine)
        share = half_cosine(ratio);
    else if (const std::int64_t annealed = samples - (decay_samples - anneal_samples); annealed > 0)
        share = anneal(anneal_style, static_cast<double>(annealed) / static_cast<double>(anneal_samples));
    return minimum + share * (maximum - minimum);
}

double WeightDecay::at(std::int64_t samples) const {
    if (style == IncreaseStyle::constant || samples > increase_samples)
        return end;
    const double ratio = static_cast<double>(samples) / static_cast<double>(increase_samples);
    return start + (end - start) * (style == IncreaseStyle::linear ? ratio : half_cosine(1 - ratio));
}

std::string to_text(const RateSchedule& schedule) {
    std::string text;
    for (const Line& line : lines_of(schedule))
        text += concat(line.name, " = ", line.value, "\n");
    return text;
}

RateSchedule rate_schedule_from_text(const std::string& text) {
    std::map<std::string, std::string, std::less<>> values;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
        if (const std::size_t equals = line.find(" = "); equals != std::string::npos)
            values[line.substr(0, equals)] = line.substr(equals + 3);
    RateSchedule schedule;
    for_each_field(schedule, [&](const char* name, auto& field, const auto&... names) {
        const auto found = values.find(name);
        if (found == values.end() || !parse(found->second, field, names...))
            throw Error(ErrorCategory::checkpoint,
                        concat("the schedule of rates in the checkpoint says nothing usable of ", name),
                        {found == values.end() ? "it is missing" : concat("it says '", found->second, "'"),
                         "try: leave out --use-checkpoint-opt_param-scheduler: the options count then"});
    });
    return schedule;
}

std::vector<std::string> differences(const RateSchedule& now, const RateSchedule& in_checkpoint) {
    const std::vector<Line> ours = lines_of(now), theirs = lines_of(in_checkpoint);
    std::vector<std::string> result;
    for (std::size_t i = 0; i < ours.size(); ++i)
        if (ours[i].value != theirs[i].value)
            result.push_back(
                concat(ours[i].name, " ", ours[i].value, " (", theirs[i].value, " in the checkpoint)"));
    return result;
}

} // namespace trireme::optimizer
