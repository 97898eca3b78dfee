// The watchdog's thread: answers its peers' questions at any time, and asks when its own rank waits for too
// long.
//
//     own wait > limit ----> ask all ----> all answered, or 2 s over ----> lowest waiting rank? -- yes -->
//     print, end the job or asked to report <---- "report" ----------------------------------------- no -->
//     tell that rank; act if it does not
//
//     asked to end by a signal ----> ask all ----> all answered: they live, the main thread goes on
//                                                  some do not: the lowest living rank prints, all leave
//
//     own wait > 10 s ----> ask the next rank, again and again ----> its process is gone, or it is silent for
//     long ----> ask all ----> some do not answer: print, tell the others to leave, end the job
//     (a launcher may leave us alone)
//
// It has a communicator of its own and polls it a few times a second; the main thread does nothing for it but
// the few stores of the phase board.
#include "trireme/comm/phase.hpp"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <iostream>
#include <mutex>
#include <optional>
#include <thread>
#include <unistd.h>

#include "comm/board.hpp"
#include "comm/mpi/runtime_impl.hpp"
#include "comm/verdict.hpp"

namespace trireme::comm {

namespace {

constexpr std::chrono::milliseconds kPollInterval{150}, kHurriedInterval{20};
constexpr double kAnswerSeconds = 2.0; // time to answer; ranks poll much more often
constexpr double kHandOverSeconds = 5.0;
// How long peers may take to answer once this process is asked to end. mpirun, which asks when a rank has
// died, kills one second later (odls_base_sigkill_timeout); others leave more time. A peer of this host whose
// process lives may be starved.
constexpr double kAliveSecondsMpirun = 0.4, kAliveSeconds = 5.0;
// Of the next rank, which is asked while the own one waits. One that is starved or stopped on another host
// cannot be told from a dead one: who debugs there allows long waits, and the limit follows.
constexpr double kLookSeconds = 10.0, kSilentSeconds = 30.0, kSilentPart = 1.0 / 20;
constexpr int kQuestionTag = 1, kAnswerTag = 2, kReportTag = 3, kLeaveTag = 4;
constexpr const char* kGroup = "watchdog's group";

double seconds_since(std::int64_t then_ns) {
    return static_cast<double>(monotonic_ns() - then_ns) * 1e-9;
}

void copy_text(char (&to)[52], const char* from) {
    std::strncpy(to, from == nullptr ? "?" : from, sizeof to - 1);
}

// Of this rank. The fields of a wait are read again if it ended meanwhile.
RankState own_state(std::int64_t question) {
    const Board& b = board();
    RankState state;
    state.question = question;
    state.process = getpid();
    for (int attempt = 0; attempt < 5; ++attempt) {
        const std::int64_t since = b.wait_since_ns.load(std::memory_order_acquire);
        state.waiting_seconds = -1;
        state.iteration = b.iteration.load(std::memory_order_relaxed);
        state.number = b.number.load(std::memory_order_relaxed);
        copy_text(state.phase, b.phase.load(std::memory_order_relaxed));
        state.quiet_seconds = seconds_since(b.progress_ns.load(std::memory_order_acquire));
        if (since != 0) {
            state.waiting_seconds = seconds_since(since);
            state.peer = b.wait_peer.load(std::memory_order_relaxed);
            copy_text(state.what, b.wait_what.load(std::memory_order_relaxed));
            copy_text(state.group, b.wait_group.load(std::memory_order_relaxed));
        }
        if (b.wait_since_ns.load(std::memory_order_acquire) == since)
            break;
    }
    return state;
}

} // namespace

struct Watchdog::Impl {
    Impl(Runtime& owner, MPI_Comm world, double limit, std::function<void(const Error&)> told)
        : runtime(owner), comm(duplicate(world, kGroup)), timeout_seconds(limit), on_end(std::move(told)),
          exceptions(std::uncaught_exceptions()),
          processes(owner.world().all_gather(std::to_string(getpid()))),
          states(static_cast<std::size_t>(owner.ranks())), next((owner.rank() + 1) % owner.ranks()),
          sees_next(process_is_here(next)) {}

    void run();
    void answer_messages();
    void ask();
    void decide();
    bool all_answered() const;
    void report();
    void check_alive();
    void look_at_next(std::int64_t waiting_since_ns);
    void check_missed();
    void tell_to_leave(int exit_code);
    bool process_is_here(int rank) const;
    bool may_be_starved() const;
    [[noreturn]] void end_job(const Error& error);
    template <class Message>
    void post(const Message& message, int to, int tag);
    bool asking() const { return asked_ns != 0; }
    void forget() {
        asked_ns = handed_over_ns = 0;
        for_signal = misses_next = false;
        next_question = 0;
        states.assign(states.size(), std::nullopt);
    }

    Runtime& runtime;
    MpiComm comm;
    double timeout_seconds;
    std::function<void(const Error&)> on_end;
    int exceptions;
    std::vector<std::string> processes; // the operating system's numbers, by rank

    // Of the thread.
    std::int64_t question = 0;       // the last one asked
    std::int64_t asked_ns = 0;       // 0: no question open
    std::int64_t handed_over_ns = 0; // when the reporter was told
    bool for_signal = false;         // the open question is whether all live
    std::int64_t signal_ns = 0;      // the last signal that was looked into
    std::vector<std::optional<RankState>> states;
    int next;                       // the rank after this one, which this one looks after
    bool sees_next;                 // its process, from here
    bool misses_next = false;       // the open question is whether others live, since that one seems not to
    std::int64_t next_question = 0; // to it alone; 0: none is open
    int next_polls = 0; // since then: unlike a clock, they stand still while this process is stopped
    std::int64_t next_heard_ns = 0;
    struct Outgoing {
        std::vector<std::byte> bytes;
        MPI_Request request;
    };
    std::deque<Outgoing> outgoing; // their bytes stay until sent

    std::mutex mutex;
    std::condition_variable wake;
    bool stopping = false;
    std::thread thread;
};

template <class Message>
void Watchdog::Impl::post(const Message& message, int to, int tag) {
    Outgoing& out = outgoing.emplace_back();
    out.bytes.resize(sizeof message);
    std::memcpy(out.bytes.data(), &message, sizeof message);
    check_mpi(MPI_Isend(out.bytes.data(), static_cast<int>(sizeof message), MPI_BYTE, to, tag, comm.get(),
                        &out.request),
              "message", kGroup);
}

void Watchdog::Impl::answer_messages() {
    while (!outgoing.empty()) {
        int sent = 0;
        check_mpi(MPI_Test(&outgoing.front().request, &sent, MPI_STATUS_IGNORE), "message", kGroup);
        if (sent == 0)
            break;
        outgoing.pop_front();
    }
    for (;;) {
        int arrived = 0;
        MPI_Status status;
        check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm.get(), &arrived, &status), "poll", kGroup);
        if (arrived == 0)
            return;
        const int from = status.MPI_SOURCE;
        if (status.MPI_TAG == kAnswerTag) {
            RankState state;
            check_mpi(MPI_Recv(&state, static_cast<int>(sizeof state), MPI_BYTE, from, kAnswerTag, comm.get(),
                               MPI_STATUS_IGNORE),
                      "receive", kGroup);
            if (asking() && state.question == question)
                states[static_cast<std::size_t>(from)] = state;
            else if (state.question == next_question) {
                next_question = 0;
                next_heard_ns = monotonic_ns();
            }
            continue;
        }
        std::int64_t asked = 0; // or, of a rank that tells to leave, the exit code
        check_mpi(MPI_Recv(&asked, static_cast<int>(sizeof asked), MPI_BYTE, from, status.MPI_TAG, comm.get(),
                           MPI_STATUS_IGNORE),
                  "receive", kGroup);
        if (status.MPI_TAG == kLeaveTag)
            std::_Exit(static_cast<int>(asked)); // the sender has said why
        if (status.MPI_TAG == kQuestionTag)
            post(own_state(asked), from, kAnswerTag);
        else if (!asking())
            ask();
    }
}

void Watchdog::Impl::ask() {
    forget();
    asked_ns = monotonic_ns();
    ++question;
    for (int r = 0; r < runtime.ranks(); ++r)
        if (r != runtime.rank())
            post(question, r, kQuestionTag);
}

bool Watchdog::Impl::all_answered() const {
    for (std::size_t r = 0; r < states.size(); ++r)
        if (static_cast<int>(r) != runtime.rank() && !states[r])
            return false;
    return true;
}

// With the answers in: nothing if the trouble has passed, else one rank reports.
void Watchdog::Impl::decide() {
    states[static_cast<std::size_t>(runtime.rank())] = own_state(question);
    const auto stuck = [&](const std::optional<RankState>& state) {
        return state && state->waiting_seconds > timeout_seconds;
    };
    if (!states[static_cast<std::size_t>(runtime.rank())]->waits() || std::ranges::none_of(states, stuck))
        return forget();
    int reporter = 0;
    while (!states[static_cast<std::size_t>(reporter)] ||
           !states[static_cast<std::size_t>(reporter)]->waits())
        ++reporter;
    if (reporter == runtime.rank())
        return report();
    handed_over_ns = monotonic_ns();
    post(question, reporter, kReportTag);
}

void Watchdog::Impl::report() {
    end_job(judge(states, runtime.hosts(), timeout_seconds, seconds_since(asked_ns)));
}

void Watchdog::Impl::end_job(const Error& error) {
    if (on_end)
        on_end(error);
    std::cerr << error.message() << std::flush;
    runtime.abort(error.exit_code());
}

// Whether the rank's process is one of this host that can be seen and is still there.
bool Watchdog::Impl::process_is_here(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    return runtime.hosts()[r] == runtime.host() && ::kill(std::stoi(processes[r]), 0) == 0;
}

// Whether all silent peers are such.
bool Watchdog::Impl::may_be_starved() const {
    for (int r = 0; r < runtime.ranks(); ++r)
        if (!states[static_cast<std::size_t>(r)] && r != runtime.rank() && !process_is_here(r))
            return false;
    return true;
}

// Asks the next rank at intervals while this one waits. A process that stands still on this host is left to
// the limit on waiting.
void Watchdog::Impl::look_at_next(std::int64_t waiting_since_ns) {
    if (runtime.ranks() == 1)
        return;
    if (waiting_since_ns == 0) {
        next_question = 0;
        return;
    }
    if (next_question == 0) {
        if (seconds_since(std::max(waiting_since_ns, next_heard_ns)) >
            std::min(kLookSeconds, timeout_seconds)) {
            next_question = ++question;
            next_polls = 0;
            post(next_question, next, kQuestionTag);
        }
        return;
    }
    const double silent_seconds =
        static_cast<double>(++next_polls) * std::chrono::duration<double>(kPollInterval).count();
    const bool here = process_is_here(next);
    const bool gone = sees_next && !here && silent_seconds > kAnswerSeconds;
    if (gone || (!here && silent_seconds > std::max(kSilentSeconds, kSilentPart * timeout_seconds))) {
        ask();
        misses_next = true;
    }
}

// The next rank seemed to be gone: it answers after all, or this rank says so and ends the job.
void Watchdog::Impl::check_missed() {
    if (all_answered())
        return forget();
    if (seconds_since(asked_ns) <= kAnswerSeconds)
        return;
    states[static_cast<std::size_t>(runtime.rank())] = own_state(question);
    if (states[static_cast<std::size_t>(next)])
        return forget();
    const Error error = judge_end(states, runtime.hosts(), seconds_since(asked_ns));
    tell_to_leave(error.exit_code());
    end_job(error);
}

// A launcher that leaves ranks alone when one dies may also do so when one aborts.
void Watchdog::Impl::tell_to_leave(int exit_code) {
    for (int r = 0; r < runtime.ranks(); ++r)
        if (states[static_cast<std::size_t>(r)] && r != runtime.rank())
            post(std::int64_t{exit_code}, r, kLeaveTag);
    for (std::int64_t start = monotonic_ns(); !outgoing.empty() && seconds_since(start) < kAnswerSeconds;) {
        answer_messages();
        std::this_thread::sleep_for(kHurriedInterval);
    }
}

void Watchdog::Impl::check_alive() {
    if (all_answered())
        return forget();
    const double limit =
        runtime.started_by() == "mpirun" && !may_be_starved() ? kAliveSecondsMpirun : kAliveSeconds;
    if (seconds_since(asked_ns) <= limit)
        return;
    states[static_cast<std::size_t>(runtime.rank())] = own_state(question);
    const Error error = judge_end(states, runtime.hosts(), seconds_since(asked_ns));
    for (int r = 0; r < runtime.rank(); ++r)
        if (states[static_cast<std::size_t>(r)]) { // it prints, and ends the others
            std::this_thread::sleep_for(std::chrono::milliseconds(500));
            runtime.abort(error.exit_code());
        }
    end_job(error);
}

void Watchdog::Impl::run() {
    std::unique_lock lock(mutex);
    while (!stopping) {
        lock.unlock();
        answer_messages();
        const std::int64_t since = board().wait_since_ns.load(std::memory_order_acquire);
        const std::int64_t signalled = board().end_signal_ns.load(std::memory_order_acquire);
        if (signalled != signal_ns) {
            signal_ns = signalled;
            ask();
            for_signal = true;
        }
        if (for_signal)
            check_alive();
        else if (misses_next)
            check_missed();
        else if (!asking() && since != 0 && seconds_since(since) > timeout_seconds)
            ask();
        else if (asking() && handed_over_ns == 0 &&
                 (all_answered() || seconds_since(asked_ns) > kAnswerSeconds))
            decide();
        else if (asking() && handed_over_ns != 0 && seconds_since(handed_over_ns) > kHandOverSeconds) {
            // The reporter is as stuck as the others, or the trouble has passed.
            if (since != 0 && seconds_since(since) > timeout_seconds)
                report();
            forget();
        }
        if (!asking())
            look_at_next(since);
        lock.lock();
        wake.wait_for(lock, for_signal ? kHurriedInterval : kPollInterval, [&] { return stopping; });
    }
}

Watchdog::Watchdog(Runtime& runtime, double timeout_seconds, std::function<void(const Error&)> on_end)
    : impl_(
          std::make_unique<Impl>(runtime, runtime.impl_->world.comm(), timeout_seconds, std::move(on_end))) {
    TRIREME_ASSERT(timeout_seconds > 0, "a watchdog with a limit of ", timeout_seconds, " s");
    board().progress_ns.store(monotonic_ns(), std::memory_order_release);
    impl_->thread = std::thread([impl = impl_.get()] {
        try {
            impl->run();
        } catch (const Error& error) {
            std::cerr << error.message() << std::flush;
            impl->runtime.abort(error.exit_code());
        }
    });
}

Watchdog::~Watchdog() {
    if (std::uncaught_exceptions() <= impl_->exceptions) {
        try {
            const PhaseScope phase("end of run");
            impl_->runtime.world().barrier();
        } catch (const Error& error) {
            std::cerr << error.message() << std::flush;
        }
    }
    {
        const std::scoped_lock lock(impl_->mutex);
        impl_->stopping = true;
    }
    impl_->wake.notify_all();
    impl_->thread.join();
}

} // namespace trireme::comm
