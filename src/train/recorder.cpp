// Marks, sums, and the two texts made of them.
#include "recorder.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <string_view>

namespace trireme::train {
namespace {

using Kind = comm::ScopeListener::Kind;

// "forward of micro-batch" is forward.
std::string kind_of(const Span& span) {
    if (span.kind == Kind::communication)
        return span.group;
    const std::string_view name = span.name;
    for (const auto& [start, kind] :
         std::initializer_list<std::pair<std::string_view, const char*>>{{"forward", "forward"},
                                                                         {"backward", "backward"},
                                                                         {"weight gradient", "backward"},
                                                                         {"data", "data"},
                                                                         {"optimizer", "optimizer"},
                                                                         {"gradient reduction", "optimizer"}})
        if (name.starts_with(start))
            return kind;
    return "other";
}

std::string label_of(const Span& span) {
    return span.kind == Kind::communication ? concat(span.name, " of the ", span.group) : span.name;
}

std::string quoted(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\')
            result += '\\';
        result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return result + "\"";
}

std::string print(const char* format, double value) {
    char text[48];
    std::snprintf(text, sizeof text, format, value);
    return text;
}

// One line a kind: seconds, a space, the name.
std::string to_text(const std::map<std::string, double>& sums) {
    std::ostringstream text;
    text.precision(17);
    for (const auto& [name, seconds] : sums)
        text << seconds << ' ' << name << '\n';
    return text.str();
}
std::map<std::string, double> from_text(const std::string& text) {
    std::map<std::string, double> sums;
    std::istringstream lines(text);
    double seconds = 0;
    for (std::string name; lines >> seconds && std::getline(lines.ignore(1), name);)
        sums[name] = seconds;
    return sums;
}

} // namespace

std::map<std::string, double> own_times(const std::vector<Span>& spans, double step_seconds,
                                        TimingDetail detail) {
    std::vector<double> own(spans.size());
    double between = step_seconds;
    for (std::size_t i = 0; i < spans.size(); ++i) {
        const double duration = spans[i].end - spans[i].begin;
        own[i] += duration;
        if (spans[i].parent >= 0)
            own[static_cast<std::size_t>(spans[i].parent)] -= duration;
        else
            between -= duration;
    }
    std::map<std::string, double> sums;
    for (std::size_t i = 0; i < spans.size(); ++i)
        sums[detail == TimingDetail::kinds ? kind_of(spans[i]) : label_of(spans[i])] += own[i];
    sums["other"] += between;
    return sums;
}

std::string format_timing(const std::vector<std::map<std::string, double>>& ranks,
                          const std::vector<std::string>& hosts, std::int64_t steps) {
    struct Line {
        double mean = 0, most = -1;
        std::size_t slowest = 0;
    };
    std::map<std::string, Line> lines;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
        for (const auto& [name, seconds] : ranks[rank]) {
            Line& line = lines[name];
            const double milliseconds = 1e3 * seconds / static_cast<double>(std::max<std::int64_t>(1, steps));
            line.mean += milliseconds / static_cast<double>(ranks.size());
            if (milliseconds > line.most) {
                line.most = milliseconds;
                line.slowest = rank;
            }
        }
    std::vector<std::pair<std::string, Line>> sorted(lines.begin(), lines.end());
    std::ranges::stable_sort(sorted,
                             [](const auto& a, const auto& b) { return a.second.mean > b.second.mean; });
    double all = 0;
    for (const auto& [name, line] : sorted)
        all += line.mean;
    std::string text = " timing (ms a step and share";
    text += ranks.size() > 1 ? ", mean of ranks; the slowest):" : "):";
    for (const auto& [name, line] : sorted) {
        text += concat(" ", name, " ", print("%.1f", line.mean), " ",
                       print("%.1f %%", all > 0 ? 100 * line.mean / all : 0));
        if (ranks.size() > 1)
            text += concat(" (", print("%.1f", line.most), ", rank ", line.slowest, " on ",
                           hosts[line.slowest], ")");
        text += " |";
    }
    return text;
}

std::string trace_events(const std::vector<Span>& spans, double step_seconds, double start_us, int rank,
                         std::int64_t iteration) {
    std::string text;
    const auto add = [&](const std::string& name, const char* category, double begin, double end) {
        text += concat(text.empty() ? "" : ",\n", "{\"name\":", quoted(name), ",\"cat\":\"", category,
                       "\",\"ph\":\"X\",\"pid\":", rank,
                       ",\"tid\":0,\"ts\":", print("%.3f", start_us + 1e6 * begin),
                       ",\"dur\":", print("%.3f", 1e6 * (end - begin)), "}");
    };
    add(concat("iteration ", iteration), "step", 0, step_seconds);
    for (const Span& span : spans)
        add(concat(label_of(span), span.number >= 0 ? concat(" ", span.number) : ""),
            span.kind == Kind::communication ? "communication" : "phase", span.begin, span.end);
    return text;
}

Recorder::Recorder(const Wanted& wanted, backend::Backend& backend, int rank)
    : wanted_(wanted), backend_(backend), rank_(rank) {
    comm::set_scope_listener(this);
}

Recorder::~Recorder() {
    comm::set_scope_listener(nullptr);
}

// The stream is empty then, so its clock and the host's meet.
void Recorder::begin_step(std::int64_t iteration) {
    marked_.clear();
    open_.clear();
    backend_.synchronize(backend::StreamRole::compute);
    backend_.forget_marks();
    step_start_us_ =
        std::chrono::duration<double, std::micro>(std::chrono::system_clock::now().time_since_epoch())
            .count();
    step_begin_ = backend_.mark();
    iteration_ = iteration;
    in_step_ = true;
}

void Recorder::end_step() {
    const backend::TimeMark step_end = backend_.mark();
    in_step_ = false;
    backend_.synchronize(backend::StreamRole::compute);
    std::vector<Span> spans;
    spans.reserve(marked_.size());
    for (Marked& marked : marked_) {
        marked.span.begin = backend_.seconds_between(step_begin_, marked.begin);
        marked.span.end = backend_.seconds_between(step_begin_, marked.end);
        spans.push_back(std::move(marked.span));
    }
    const double seconds = backend_.seconds_between(step_begin_, step_end);
    if (wanted_.sums) {
        for (const auto& [name, own] : own_times(spans, seconds, wanted_.detail))
            sums_[name] += own;
        ++summed_steps_;
    }
    if (++steps_seen_ > kWarmUp && traced_ < wanted_.traced_steps) {
        events_ +=
            (events_.empty() ? "" : ",\n") + trace_events(spans, seconds, step_start_us_, rank_, iteration_);
        ++traced_;
    }
}

void Recorder::begin(Kind kind, const char* name, const char* group, std::int64_t number) {
    if (!in_step_)
        return;
    const int parent = open_.empty() ? -1 : open_.back();
    open_.push_back(static_cast<int>(marked_.size()));
    marked_.push_back(
        {{kind, name, group == nullptr ? "" : group, number, 0, 0, parent}, backend_.mark(), {}});
    backend_.push_range(name);
}

void Recorder::end() {
    if (!in_step_ || open_.empty())
        return;
    marked_[static_cast<std::size_t>(open_.back())].end = backend_.mark();
    open_.pop_back();
    backend_.pop_range();
}

std::string Recorder::take_timing(comm::HostGroup& world, const std::vector<std::string>& hosts) {
    if (!wanted_.sums)
        return {};
    std::vector<std::map<std::string, double>> ranks;
    for (const std::string& text : world.all_gather(to_text(sums_)))
        ranks.push_back(from_text(text));
    const std::string line = format_timing(ranks, hosts, summed_steps_);
    sums_.clear();
    summed_steps_ = 0;
    return line;
}

std::string Recorder::take_trace(comm::HostGroup& world, const std::vector<std::string>& hosts) {
    const std::vector<std::string> all = world.all_gather(events_);
    events_.clear();
    std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    for (std::size_t rank = 0; rank < all.size(); ++rank)
        text += concat("{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":", rank,
                       ",\"args\":{\"name\":", quoted(concat("rank ", rank, " on ", hosts[rank])), "}},\n",
                       all[rank], rank + 1 < all.size() ? ",\n" : "\n");
    return text + "]}\n";
}

} // namespace trireme::train
