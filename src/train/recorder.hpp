// What a step's time goes to. The recorder listens to phases and communications (comm/phase.hpp), marks their
// begins and ends in the work of the compute stream, and makes of them sums by kind for the log
// (--timing-log-level) and one trace of all ranks (--profile).
//
// A span's own time is its duration without the spans inside it: an all-reduce within a backward pass counts
// as communication, not as backward. Own times of a step and what lies between spans add up to the step.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trireme/backend/backend.hpp"
#include "trireme/comm/host_group.hpp"
#include "trireme/comm/phase.hpp"

namespace trireme::train {

struct Span {
    comm::ScopeListener::Kind kind = comm::ScopeListener::Kind::phase;
    std::string name, group; // group: of a communication
    std::int64_t number = -1;
    double begin = 0, end = 0; // seconds since the step began
    int parent = -1;           // index of the span around it
};

// By phase: a line for each kind of work ("forward"), or for each phase and each operation of each group.
enum class TimingDetail : std::uint8_t { kinds, phases };

// Seconds by kind, "other" being what lies between spans; they add up to `step_seconds`.
std::map<std::string, double> own_times(const std::vector<Span>& spans, double step_seconds,
                                        TimingDetail detail);

// " timing (ms per step: mean of ranks, most) forward 12.1, 12.4 (rank 3 on node7) | ..." of each rank's sums
// over `steps` steps.
std::string format_timing(const std::vector<std::map<std::string, double>>& ranks,
                          const std::vector<std::string>& hosts, std::int64_t steps);

// Complete events of the Chrome trace format, separated by commas. start_us: when the step began, on the
// common time line.
std::string trace_events(const std::vector<Span>& spans, double step_seconds, double start_us, int rank,
                         std::int64_t iteration);

class Recorder final : public comm::ScopeListener {
  public:
    struct Wanted {
        bool sums = false;
        TimingDetail detail = TimingDetail::kinds;
        std::int64_t traced_steps = 0; // after the first kWarmUp of this run
    };
    static constexpr std::int64_t kWarmUp = 2;

    // Listens while it lives, and between begin_step and end_step. Main thread.
    Recorder(const Wanted& wanted, backend::Backend& backend, int rank);
    ~Recorder() override;
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    void begin_step(std::int64_t iteration);
    void end_step();
    bool trace_complete() const { return wanted_.traced_steps > 0 && traced_ == wanted_.traced_steps; }

    // Collective: the line of the steps since the last call, on every rank; empty if sums are not wanted.
    std::string take_timing(comm::HostGroup& world, const std::vector<std::string>& hosts);
    // Collective: the whole trace on rank 0.
    std::string take_trace(comm::HostGroup& world, const std::vector<std::string>& hosts);

    void begin(Kind kind, const char* name, const char* group, std::int64_t number) override;
    void end() override;

  private:
    struct Marked {
        Span span;
        backend::TimeMark begin, end;
    };
    Wanted wanted_;
    backend::Backend& backend_;
    int rank_;
    bool in_step_ = false;
    std::int64_t steps_seen_ = 0, traced_ = 0, summed_steps_ = 0, iteration_ = 0;
    double step_start_us_ = 0;
    backend::TimeMark step_begin_;
    std::vector<Marked> marked_; // of this step
    std::vector<int> open_;
    std::map<std::string, double> sums_;
    std::string events_;
};

} // namespace trireme::train
