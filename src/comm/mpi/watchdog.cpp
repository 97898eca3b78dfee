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
//     the next rank seems dead (next_rank.hpp) ----> ask all ----> some do not answer: the lowest rank before
//     one of them prints and ends the job
//
// Who ends the job tells the others to leave first: a launcher that leaves ranks alone when one dies may also
// do so when one aborts.
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
#include "comm/next_rank.hpp"
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
constexpr double kTellSeconds = 1.0, kLeaveSeconds = 3.0; // the launcher may end who was told to leave
// A poll that comes so late: this process was stopped, and its clocks say nothing about the others.
constexpr double kStoodStillSeconds = 3.0;
constexpr int kQuestionTag = 1, kAnswerTag = 2, kReportTag = 3, kLeaveTag = 4;
constexpr const char* kGroup = "watchdog's group";

} // namespace

struct Watchdog::Impl {
    Impl(Runtime& owner, MPI_Comm world, double limit, std::function<void(const Error&)> told)
        : runtime(owner), comm(duplicate(world, kGroup)), timeout_seconds(limit), on_end(std::move(told)),
          exceptions(std::uncaught_exceptions()),
          processes(owner.world().all_gather(std::to_string(getpid()))),
          states(static_cast<std::size_t>(owner.ranks())), next((owner.rank() + 1) % owner.ranks()),
          next_rank(limit, std::chrono::duration<double>(kPollInterval).count()),
          sees_next(process_is_here(next)) {}

    // Why a question to all ranks is open: this rank waits for longer than the limit; it was asked to end by
    // a signal; the next rank seems to be dead.
    enum class Asked : std::uint8_t { nothing, limit, signal, missing };

    void run();
    void poll();
    void notice_standstill();
    void answer_messages();
    void take_answer(int from);
    void ask(Asked why);
    void decide();
    bool all_answered() const;
    void check_alive();
    void look_at_next(bool waits);
    void check_missing();
    bool process_is_here(int rank) const;
    bool may_be_starved() const;
    RankState own() const { return state_of_this_rank(question, awake_ns); }
    [[noreturn]] void end_job(const Error& error);
    template <class Message>
    void post(const Message& message, int to, int tag);
    bool asking() const { return asked != Asked::nothing; }
    void forget() {
        asked = Asked::nothing;
        handed_over_ns.reset();
        by_itself = false;
        next_rank.forget();
        states.assign(states.size(), std::nullopt);
    }

    Runtime& runtime;
    MpiComm comm;
    double timeout_seconds;
    std::function<void(const Error&)> on_end;
    int exceptions;
    std::vector<std::string> processes; // the operating system's numbers, by rank

    // Of the thread.
    std::int64_t question = 0; // the last one asked
    Asked asked = Asked::nothing;
    std::int64_t asked_ns = 0;                  // when, if any is open
    std::optional<std::int64_t> handed_over_ns; // when the reporter was told
    bool by_itself = false;                     // the reporter did not act: this rank does
    std::int64_t signal_ns = 0;                 // the last signal that was looked into
    std::vector<std::optional<RankState>> states;
    int next; // the rank after this one
    NextRank next_rank;
    bool sees_next;                          // its process, from here
    std::int64_t next_question = -1;         // the last one to it alone
    std::int64_t polled_ns = monotonic_ns(); // the last poll
    std::int64_t awake_ns = 0;               // when this process was last continued
    std::optional<int> leaves_with;          // told to leave: the exit code
    std::int64_t told_ns = 0;                // when
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
    // What goes to a rank that is dead may stay for ever.
    std::erase_if(outgoing, [](Outgoing& out) {
        int sent = 0;
        check_mpi(MPI_Test(&out.request, &sent, MPI_STATUS_IGNORE), "message", kGroup);
        return sent != 0;
    });
    for (;;) {
        int arrived = 0;
        MPI_Status status;
        check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm.get(), &arrived, &status), "poll", kGroup);
        if (arrived == 0)
            return;
        const int from = status.MPI_SOURCE;
        if (status.MPI_TAG == kAnswerTag) {
            take_answer(from);
            continue;
        }
        std::int64_t number = 0; // of the question, or the exit code to leave with
        check_mpi(MPI_Recv(&number, static_cast<int>(sizeof number), MPI_BYTE, from, status.MPI_TAG,
                           comm.get(), MPI_STATUS_IGNORE),
                  "receive", kGroup);
        if (status.MPI_TAG == kQuestionTag) {
            post(state_of_this_rank(number, awake_ns), from, kAnswerTag);
        } else if (status.MPI_TAG == kLeaveTag) {
            leaves_with = static_cast<int>(number);
            told_ns = monotonic_ns();
        } else if (!asking()) {
            ask(Asked::limit);
        }
    }
}

void Watchdog::Impl::take_answer(int from) {
    RankState state;
    check_mpi(MPI_Recv(&state, static_cast<int>(sizeof state), MPI_BYTE, from, kAnswerTag, comm.get(),
                       MPI_STATUS_IGNORE),
              "receive", kGroup);
    if (asking() && state.question == question)
        states[static_cast<std::size_t>(from)] = state;
    else if (from == next && state.question == next_question)
        next_rank.answered();
}

void Watchdog::Impl::ask(Asked why) {
    forget();
    asked = why;
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
    states[static_cast<std::size_t>(runtime.rank())] = own();
    if (!states[static_cast<std::size_t>(runtime.rank())]->waits() ||
        std::ranges::none_of(
            states, [&](const auto& state) { return state && state->waiting_seconds > timeout_seconds; }))
        return forget();
    int reporter = 0;
    while (!states[static_cast<std::size_t>(reporter)] ||
           !states[static_cast<std::size_t>(reporter)]->waits())
        ++reporter;
    if (by_itself || reporter == runtime.rank())
        end_job(judge(states, runtime.hosts(), timeout_seconds, seconds_since(asked_ns)));
    handed_over_ns = monotonic_ns();
    post(question, reporter, kReportTag);
}

void Watchdog::Impl::end_job(const Error& error) {
    if (on_end)
        on_end(error);
    std::cerr << error.message() << std::flush;
    for (int r = 0; r < runtime.ranks(); ++r)
        if (r != runtime.rank())
            post(std::int64_t{error.exit_code()}, r, kLeaveTag);
    for (const std::int64_t start = monotonic_ns();
         !outgoing.empty() && seconds_since(start) < kTellSeconds;) {
        answer_messages();
        std::this_thread::sleep_for(kHurriedInterval);
    }
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

void Watchdog::Impl::check_alive() {
    if (all_answered())
        return forget();
    const double limit =
        runtime.started_by() == "mpirun" && !may_be_starved() ? kAliveSecondsMpirun : kAliveSeconds;
    if (seconds_since(asked_ns) <= limit)
        return;
    for (int r = 0; r < runtime.rank(); ++r)
        if (states[static_cast<std::size_t>(r)] && seconds_since(asked_ns) < limit + kHandOverSeconds)
            return; // it prints, and ends the others
    states[static_cast<std::size_t>(runtime.rank())] = own();
    end_job(judge_end(states, runtime.hosts(), seconds_since(asked_ns)));
}

void Watchdog::Impl::look_at_next(bool waits) {
    if (runtime.ranks() == 1)
        return;
    using Process = NextRank::Process;
    const Process process = process_is_here(next) ? Process::here
                            : sees_next           ? Process::gone
                                                  : Process::elsewhere;
    switch (next_rank.poll(waits, process)) {
    case NextRank::Verdict::nothing:
        break;
    case NextRank::Verdict::ask:
        next_question = ++question;
        post(next_question, next, kQuestionTag);
        break;
    case NextRank::Verdict::missing:
        ask(Asked::missing);
        break;
    }
}

// The next rank seemed to be dead: it answers after all, or the job ends. Where several are silent, the
// lowest of the ranks before them prints, and the others do if it does not.
void Watchdog::Impl::check_missing() {
    if (all_answered())
        return forget();
    if (seconds_since(asked_ns) <= kAnswerSeconds)
        return;
    states[static_cast<std::size_t>(runtime.rank())] = own();
    if (states[static_cast<std::size_t>(next)])
        return forget();
    for (int r = 0; r < runtime.rank(); ++r)
        if (states[static_cast<std::size_t>(r)] && !states[static_cast<std::size_t>(r) + 1] &&
            seconds_since(asked_ns) < kAnswerSeconds + kHandOverSeconds)
            return;
    end_job(judge_end(states, runtime.hosts(), seconds_since(asked_ns)));
}

// A process that was stopped, with its job or alone, has heard nothing meanwhile: what it asked counts no
// more, and its waits begin anew.
void Watchdog::Impl::notice_standstill() {
    const std::int64_t now = monotonic_ns();
    if (static_cast<double>(now - polled_ns) * 1e-9 > kStoodStillSeconds) {
        awake_ns = now;
        if (asked != Asked::signal)
            forget();
    }
    polled_ns = now;
}

void Watchdog::Impl::poll() {
    notice_standstill();
    answer_messages();
    if (leaves_with) { // the sender has said why
        if (seconds_since(told_ns) > kLeaveSeconds)
            std::_Exit(*leaves_with);
        return;
    }
    const std::int64_t signalled = board().end_signal_ns.load(std::memory_order_acquire);
    if (signalled != signal_ns) {
        signal_ns = signalled;
        ask(Asked::signal);
    }
    const std::int64_t since = board().wait_since_ns.load(std::memory_order_acquire);
    const bool too_long = since != 0 && seconds_since(std::max(since, awake_ns)) > timeout_seconds;
    switch (asked) {
    case Asked::nothing:
        if (too_long)
            ask(Asked::limit);
        else
            look_at_next(since != 0);
        break;
    case Asked::limit:
        if (!handed_over_ns) {
            if (all_answered() || seconds_since(asked_ns) > kAnswerSeconds)
                decide();
        } else if (seconds_since(*handed_over_ns) > kHandOverSeconds) {
            // The reporter is as stuck as the others, or the trouble has passed.
            if (too_long) {
                ask(Asked::limit);
                by_itself = true;
            } else {
                forget();
            }
        }
        break;
    case Asked::signal:
        check_alive();
        break;
    case Asked::missing:
        check_missing();
        break;
    }
}

void Watchdog::Impl::run() {
    std::unique_lock lock(mutex);
    while (!stopping) {
        lock.unlock();
        poll();
        lock.lock();
        wake.wait_for(lock, asked == Asked::signal ? kHurriedInterval : kPollInterval,
                      [&] { return stopping; });
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
