// Reads the two ways to say how the batch grows.
#include "options/batch_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "options/convert.hpp"
#include "trireme/base/error.hpp"

namespace trireme::options {
namespace {

constexpr double kLargest = 0x1p53; // counts stay exact in a double

BatchScheduleText read_ramp(const Values& v) {
    constexpr std::string_view kCure = "--rampup-batch-size START INCREMENT SAMPLES";
    std::vector<std::int64_t> numbers;
    for (const std::string& text : v.rampup_batch_size)
        numbers.push_back(to_integer(text).value_or(-1));
    if (numbers.size() != 3 ||
        std::ranges::any_of(numbers, [](std::int64_t n) { return n < 0 || n > 1e15; }) || numbers[0] == 0 ||
        numbers[1] == 0)
        return {"--rampup-batch-size takes three whole numbers: first batch, increment, samples",
                std::string(kCure),
                {}};
    const std::int64_t start = numbers[0], increment = numbers[1], final = *v.global_batch_size;
    if (start > final)
        return {concat("the batch cannot rise from ", start, " to ", final),
                concat("a first batch of at most ", final),
                {}};
    if ((final - start) % increment != 0)
        return {concat("the batch cannot rise from ", start, " to ", final, " by ", increment,
                       " at a time: ", final - start, " is not a multiple of it"),
                concat("an increment of ", std::max<std::int64_t>(1, (final - start) / 2),
                       ", or another first batch"),
                {}};
    return {{}, {}, topology::BatchSchedule::ramp_up(start, increment, numbers[2], final)};
}

// "250B" is 250e9, "1.5K" is 1500; nothing else after the number.
std::optional<std::int64_t> to_count(std::string text) {
    constexpr std::string_view kSuffixes = "KMBT";
    double factor = 1;
    const char last =
        text.empty() ? ' ' : static_cast<char>(std::toupper(static_cast<unsigned char>(text.back())));
    if (const std::size_t at = kSuffixes.find(last); at != std::string_view::npos) {
        factor = std::pow(1000.0, static_cast<double>(at + 1));
        text.pop_back();
    }
    const std::optional<double> number = to_number(text);
    if (!number || !(*number >= 0) || !(*number * factor <= kLargest))
        return std::nullopt;
    return static_cast<std::int64_t>(*number * factor);
}

BatchScheduleText read_steps(const Values& v) {
    std::string text = join(v.step_batch_size_schedule, " ");
    std::ranges::replace(text, ',', ' ');
    std::vector<topology::BatchSchedule::Step> steps;
    const char* const cure = "--step-batch-size-schedule 0:SIZE TOKENS:SIZE ...";
    for (std::size_t begin = 0; (begin = text.find_first_not_of(' ', begin)) != std::string::npos;) {
        const std::string entry = text.substr(begin, text.find(' ', begin) - begin);
        begin += entry.size();
        const std::size_t colon = entry.find(':');
        const auto tokens = colon == std::string::npos ? std::nullopt : to_count(entry.substr(0, colon));
        const auto size = colon == std::string::npos ? std::nullopt : to_count(entry.substr(colon + 1));
        if (!tokens || !size || *size == 0)
            return {concat("'", entry, "' is not TOKENS:SIZE"), cure, {}};
        const std::int64_t from = *tokens / *v.seq_length;
        if (steps.empty() ? from != 0 : from <= steps.back().from)
            return {steps.empty() ? concat("the first batch must be from 0 tokens on, not ", *tokens)
                                  : concat("a batch from ", *tokens, " tokens on does not follow one from ",
                                           steps.back().from * *v.seq_length,
                                           " on by at least one sample of ", *v.seq_length),
                    cure,
                    {}};
        steps.push_back({from, *size});
    }
    if (steps.empty())
        return {"--step-batch-size-schedule names no batch", cure, {}};
    return {{}, {}, topology::BatchSchedule::stepwise(std::move(steps))};
}

} // namespace

BatchScheduleText read_batch_schedule(const Values& v) {
    if (!v.rampup_batch_size.empty() && v.global_batch_size)
        return read_ramp(v);
    if (!v.step_batch_size_schedule.empty() && v.seq_length)
        return read_steps(v);
    return {};
}

} // namespace trireme::options
