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
// It has a communicator of its own and polls it a few times a second; the main thread does nothing for it but
// the few stores of the phase board.
#include "trireme/comm/phase.hpp"

#include <algorithm>
#include <condition_variable>
#include <csignal>
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
constexpr int kQuestionTag = 1, kAnswerTag = 2, kReportTag = 3;
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
          states(static_cast<std::size_t>(owner.ranks())) {}

    void run();
    void answer_messages();
    void ask();
    void decide();
    bool all_answered() const;
    void report();
    void check_alive();
    bool may_be_starved() const;
    [[noreturn]] void end_job(const Error& error);
    template <class Message>
    void post(const Message& message, int to, int tag);
    bool asking() const { return asked_ns != 0; }
    void forget() {
        asked_ns = handed_over_ns = 0;
        for_signal = false;
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
            continue;
        }
        std::int64_t asked = 0;
        check_mpi(MPI_Recv(&asked, static_cast<int>(sizeof asked), MPI_BYTE, from, status.MPI_TAG, comm.get(),
                           MPI_STATUS_IGNORE),
                  "receive", kGroup);
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

// Whether all silent peers are processes of this host that are still there.
bool Watchdog::Impl::may_be_starved() const {
    for (std::size_t r = 0; r < states.size(); ++r)
        if (!states[r] && static_cast<int>(r) != runtime.rank() &&
            (runtime.hosts()[r] != runtime.host() || ::kill(std::stoi(processes[r]), 0) != 0))
            return false;
    return true;
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
