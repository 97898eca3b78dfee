// Writing and reading the phase board.
#include "trireme/comm/phase.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <set>
#include <unistd.h>

#include "comm/board.hpp"

namespace trireme::comm {

std::int64_t monotonic_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

double seconds_since(std::int64_t then_ns) {
    return static_cast<double>(monotonic_ns() - then_ns) * 1e-9;
}

Board& board() {
    static Board instance;
    return instance;
}

namespace {

void copy_text(char (&to)[52], const char* from) {
    std::strncpy(to, from == nullptr ? "?" : from, sizeof to - 1);
}

void set_phase(const char* name, std::int64_t number) {
    Board& b = board();
    b.number.store(number, std::memory_order_relaxed);
    b.phase.store(name, std::memory_order_relaxed);
    b.progress_ns.store(monotonic_ns(), std::memory_order_release);
}

void start_wait(const char* what, const char* group, int peer) {
    Board& b = board();
    b.wait_what.store(what, std::memory_order_relaxed);
    b.wait_group.store(group, std::memory_order_relaxed);
    b.wait_peer.store(peer, std::memory_order_relaxed);
    b.wait_since_ns.store(monotonic_ns(), std::memory_order_release);
}

void end_wait() {
    board().wait_since_ns.store(0, std::memory_order_release);
    board().progress_ns.store(monotonic_ns(), std::memory_order_release);
}

ScopeListener* listener = nullptr; // of the main thread

void tell_begin(ScopeListener::Kind kind, const char* name, const char* group, std::int64_t number) {
    if (listener != nullptr)
        listener->begin(kind, name, group, number);
}
void tell_end() {
    if (listener != nullptr)
        listener->end();
}

} // namespace

// The fields of a wait are read again if it ended meanwhile.
RankState state_of_this_rank(std::int64_t question, std::int64_t awake_ns) {
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
        state.quiet_seconds =
            seconds_since(std::max(awake_ns, b.progress_ns.load(std::memory_order_acquire)));
        if (since != 0) {
            state.waiting_seconds = seconds_since(std::max(awake_ns, since));
            state.peer = b.wait_peer.load(std::memory_order_relaxed);
            copy_text(state.what, b.wait_what.load(std::memory_order_relaxed));
            copy_text(state.group, b.wait_group.load(std::memory_order_relaxed));
        }
        if (b.wait_since_ns.load(std::memory_order_acquire) == since)
            break;
    }
    return state;
}

void set_scope_listener(ScopeListener* to) {
    listener = to;
}

PhaseScope::PhaseScope(const char* name, std::int64_t number)
    : outer_name_(board().phase.load(std::memory_order_relaxed)),
      outer_number_(board().number.load(std::memory_order_relaxed)) {
    set_phase(name, number);
    tell_begin(ScopeListener::Kind::phase, name, nullptr, number);
}

PhaseScope::~PhaseScope() {
    tell_end();
    set_phase(outer_name_, outer_number_);
}

void set_iteration(std::int64_t iteration) {
    board().iteration.store(iteration, std::memory_order_relaxed);
    board().progress_ns.store(monotonic_ns(), std::memory_order_release);
}

WaitScope::WaitScope(const char* what, const char* group, int peer) {
    start_wait(what, group, peer);
    tell_begin(ScopeListener::Kind::communication, what, group, -1);
}

WaitScope::~WaitScope() {
    tell_end();
    end_wait();
}

DeviceWaitScope::DeviceWaitScope() {
    start_wait("queued work", "device's streams", -1);
}

DeviceWaitScope::~DeviceWaitScope() {
    end_wait();
}

TransferScope::TransferScope(const char* what, const char* group) {
    tell_begin(ScopeListener::Kind::communication, what, group, -1);
}

TransferScope::~TransferScope() {
    tell_end();
}

void note_end_signal() {
    board().end_signal_ns.store(monotonic_ns(), std::memory_order_release);
}

const char* lasting_name(const std::string& name) {
    static std::mutex mutex;
    static auto& names =
        *new std::set<std::string>; // never destroyed: the watchdog may read a name until the end
    const std::scoped_lock lock(mutex);
    return names.insert(name).first->c_str();
}

} // namespace trireme::comm
