// The phase board: what each rank is doing right now, readable by its neighbours without its help, and the
// watchdog that names the rank that is behind. Setting a phase costs a few stores: no lock, no allocation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "trireme/comm/runtime.hpp"

namespace trireme::comm {

// Main thread only. Sets the phase of this process for the life of the scope, then restores the outer one.
// `name` must be a string literal. PhaseScope in_forward("forward", micro_batch);
class PhaseScope {
  public:
    explicit PhaseScope(const char* name, std::int64_t number = -1);
    ~PhaseScope();
    PhaseScope(const PhaseScope&) = delete;
    PhaseScope& operator=(const PhaseScope&) = delete;

  private:
    const char* outer_name_;
    std::int64_t outer_number_;
};

// Told of every phase and of every communication while it is set, on the main thread, properly nested: what
// timers and traces are made of (train/recorder.hpp).
class ScopeListener {
  public:
    enum class Kind : std::uint8_t { phase, communication };
    virtual ~ScopeListener() = default;
    // group: of a communication, else null. Names live as long as the process.
    virtual void begin(Kind kind, const char* name, const char* group, std::int64_t number) = 0;
    virtual void end() = 0;
};
void set_scope_listener(ScopeListener* listener); // null: none

// Tells the listener of a communication that does not block the host (NCCL enqueues).
class TransferScope {
  public:
    TransferScope(const char* what, const char* group);
    ~TransferScope();
    TransferScope(const TransferScope&) = delete;
    TransferScope& operator=(const TransferScope&) = delete;
};

// The iteration that the phases belong to; counts as progress.
void set_iteration(std::int64_t iteration);

// Marks this process as waiting for others, for the life of the scope: the communicators and host groups do
// so in every call that can block, storage in parallel file access. The names must outlive the process:
// literals, or lasting_name().
class WaitScope {
  public:
    WaitScope(const char* what, const char* group, int peer = -1);
    ~WaitScope();
    WaitScope(const WaitScope&) = delete;
    WaitScope& operator=(const WaitScope&) = delete;
};

// Waiting for this rank's own device, whose queue may wait for others: a hang there is one too.
class DeviceWaitScope {
  public:
    DeviceWaitScope();
    ~DeviceWaitScope();
    DeviceWaitScope(const DeviceWaitScope&) = delete;
    DeviceWaitScope& operator=(const DeviceWaitScope&) = delete;
};

// A copy of `name` that is never freed (the same one for equal names), for WaitScope.
const char* lasting_name(const std::string& name);

// For signal handlers: a signal that asks this process to end has come. Safe there: one atomic store.
void note_end_signal();

// A thread that answers its peers' questions about this rank's phase and, when this rank has waited in one
// communication for longer than `timeout_seconds`, asks all ranks for theirs, prints once which rank is
// behind, on which host and in which phase (or that it does not answer), and ends the job with exit code 5.
//
// After note_end_signal() it asks all ranks whether they live. If one does not answer, a launcher is ending
// the job after a failure: the lowest rank that lives prints one message with the phases, and all leave with
// exit code 5, before anything collective is begun that could not end.
//
// Collective over the world to make. Its end waits for all ranks (still watched), unless an exception is on
// its way.
class Watchdog {
  public:
    // on_end: told, on the rank that prints, before the job is ended; from the watchdog's thread.
    Watchdog(Runtime& runtime, double timeout_seconds, std::function<void(const Error&)> on_end = {});
    ~Watchdog();
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trireme::comm
