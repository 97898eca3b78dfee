// Signals into flags, clocks into time left, and both into one decision of all ranks.
#include "stop.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <csignal>

#include "trireme/base/sizes.hpp"
#include "trireme/comm/phase.hpp"

namespace trireme::train {
namespace {

// Slurm kills 30 seconds (KillWait) after TERM unless a site says otherwise; a save must be through by then.
constexpr double kSecondsAfterTerm = 25;
// Reserve beside what was measured: the end of the program, and measured times that vary. A step that has
// begun is given up later than a step that has not is left out.
constexpr double kReserveSeconds = 5, kLastReserveSeconds = 3;
constexpr double kSaveMargin = 1.5, kStepMargin = 1.2;

// Written by the handler. The first signal is the reason; the last TERM starts the clock.
std::atomic<int> first_signal{0};
std::atomic<std::int64_t> term_ns{0};

std::int64_t now_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now); // safe in a handler
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void on_signal(int signal) {
    int none = 0;
    first_signal.compare_exchange_strong(none, signal);
    if (signal == SIGTERM) {
        term_ns.store(now_ns());
        comm::note_end_signal();
    }
}

struct NamedSignal {
    const char* name;
    int number;
};
constexpr std::array kSignals{NamedSignal{"USR1", SIGUSR1}, NamedSignal{"USR2", SIGUSR2},
                              NamedSignal{"TERM", SIGTERM}, NamedSignal{"INT", SIGINT},
                              NamedSignal{"HUP", SIGHUP}};

bool heeds(const options::Resolved::Exit& options, const NamedSignal& signal) {
    return std::ranges::find(options.signals, concat("SIG", signal.name)) != options.signals.end();
}

enum class Reason : int { none = 0, duration = 1, time_limit = 2 };

} // namespace

std::string signal_name(int signal) {
    for (const NamedSignal& known : kSignals)
        if (known.number == signal)
            return known.name;
    return std::to_string(signal);
}

std::string Stop::text() const {
    if (reason == "signal")
        return concat("a signal (", signal_name(signal), ")");
    return reason == "time-limit" ? "the time limit of the job" : "--exit-duration-in-mins";
}

StopRequests::StopRequests(const options::Resolved::Exit& options, comm::Runtime& runtime,
                           const std::optional<cluster::SlurmJob>& job, Clock::time_point program_start)
    : options_(options), world_(runtime.world()), job_(job), program_start_(program_start) {
    first_signal.store(0);
    term_ns.store(0);
    sigset_t heeded;
    sigemptyset(&heeded);
    for (const NamedSignal& signal : kSignals) {
        if (!heeds(options_, signal))
            continue;
        struct sigaction action {};
        action.sa_handler = on_signal;
        action.sa_flags = SA_RESTART;
        ::sigaction(signal.number, &action, nullptr);
        sigaddset(&heeded, signal.number);
    }
    ::pthread_sigmask(SIG_UNBLOCK, &heeded, nullptr); // a launcher may have left them blocked
    if (!job_ || options_.signals.empty())
        return;
    std::string told;
    if (world_.rank() == 0) {
        const std::optional<std::int64_t> end = cluster::ask_end_time(*job_);
        if (end || job_->end_time)
            told = std::to_string(end.value_or(job_->end_time.value_or(0)));
    }
    told = world_.broadcast(told, 0);
    if (!told.empty())
        end_time_ = std::stoll(told);
}

StopRequests::~StopRequests() {
    for (const NamedSignal& signal : kSignals)
        if (heeds(options_, signal))
            ::signal(signal.number, stopping_ ? SIG_IGN : SIG_DFL);
}

std::optional<double> StopRequests::seconds_left() const {
    std::optional<double> left;
    const auto at_most = [&](double seconds) { left = std::min(left.value_or(seconds), seconds); };
    if (end_time_)
        at_most(static_cast<double>(*end_time_ - cluster::now_since_1970()));
    if (const std::int64_t term = term_ns.load(); term != 0)
        at_most(kSecondsAfterTerm - static_cast<double>(now_ns() - term) * 1e-9);
    return left;
}

bool StopRequests::hurried(const Needs& needs) const {
    const std::optional<double> left = seconds_left();
    return left && *left < needs.step_seconds + needs.save_seconds * kSaveMargin + kLastReserveSeconds;
}

bool StopRequests::any_hurried(const Needs& needs) {
    double any = hurried(needs) ? 1 : 0;
    world_.all_reduce({&any, 1}, comm::ReduceOp::max);
    return any > 0;
}

// Rank 0 decides by its clock. A limit may have been moved since the run started: the controller is asked
// before a run stops for it.
bool StopRequests::time_is_up(const Needs& needs) {
    const auto is_up = [&] {
        const std::optional<double> left = seconds_left();
        return left &&
               *left < needs.step_seconds * kStepMargin + needs.save_seconds * kSaveMargin + kReserveSeconds;
    };
    if (!end_time_ || !is_up())
        return false;
    if (const std::optional<std::int64_t> end = cluster::ask_end_time(*job_))
        end_time_ = end;
    return is_up();
}

Stop StopRequests::decide(Heed heed, const Needs& needs) {
    auto reason = Reason::none;
    if (world_.rank() == 0) {
        const double minutes =
            std::chrono::duration<double, std::ratio<60>>(Clock::now() - program_start_).count();
        if (heed == Heed::all && options_.duration_minutes > 0 && minutes >= options_.duration_minutes)
            reason = Reason::duration;
        else if (time_is_up(needs))
            reason = Reason::time_limit;
    }
    std::array<double, 3> most{static_cast<double>(first_signal.load()), static_cast<double>(reason),
                               world_.rank() == 0 ? static_cast<double>(end_time_.value_or(0)) : 0};
    world_.all_reduce(most, comm::ReduceOp::max);
    if (end_time_)
        end_time_ = static_cast<std::int64_t>(most[2]); // as rank 0 knows it now
    stopping_ = stopping_ || most[0] > 0 || most[1] > 0;
    if (most[0] > 0)
        return {"signal", static_cast<int>(most[0])};
    if (most[1] == static_cast<double>(Reason::time_limit))
        return {"time-limit", 0};
    if (most[1] == static_cast<double>(Reason::duration))
        return {"duration", 0};
    return {};
}

std::string StopRequests::limits() const {
    std::string text;
    const auto add = [&](const std::string& more) { text += concat(text.empty() ? "" : ", ", more); };
    if (end_time_ && *end_time_ < cluster::kNoEnd)
        add(concat("time left ", show_duration(static_cast<double>(*end_time_ - cluster::now_since_1970())),
                   " (Slurm job ", job_->id, "): saves and stops in time"));
    if (!options_.signals.empty()) {
        std::string names;
        for (const std::string& name : options_.signals)
            names += concat(names.empty() ? "" : " or ", name);
        add(concat("saves and stops on ", names));
    }
    if (options_.duration_minutes > 0)
        add(concat("stops after ", options_.duration_minutes, " minutes"));
    return text;
}

CutShort::CutShort(comm::HostGroup& world, int stages, const StopRequests& requests)
    : vote_(world.make_vote(stages)), requests_(requests) {}

void CutShort::begin(const Needs& needs) {
    needs_ = needs;
    start_ = Clock::now();
}

bool CutShort::enters(std::int64_t) {
    const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
    // Before a step was measured: at the last moment.
    const Needs rest{std::max(0.0, needs_.step_seconds - elapsed), needs_.save_seconds};
    return !vote_->vote(requests_.hurried(rest) ? comm::Ballot::yes : comm::Ballot::no);
}

} // namespace trireme::train
