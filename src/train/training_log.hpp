// What a run writes down of its steps and evaluations: lines for people, their twins in metrics.jsonl, and
// what the options ask for besides: times (--timing-log-level), a trace (--profile), the GPUs (--log-gpu).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "log_interval.hpp"
#include "metrics.hpp"
#include "progress.hpp"
#include "recorder.hpp"
#include "trireme/backend/backend.hpp"
#include "trireme/cluster/gpu_monitor.hpp"
#include "trireme/comm/runtime.hpp"
#include "trireme/options/resolve.hpp"

namespace trireme::train {

class TrainingLog {
  public:
    // The time of the first step begins here. Collective over the world, as all that follows. Throws Error
    // (output): metrics.jsonl cannot be written; Error (device): --log-gpu without a driver that tells.
    TrainingLog(const options::Resolved& options, comm::Runtime& runtime, backend::Backend& backend,
                const EngineSetup& setup, MetricsStart start);

    // Around each step, finished or not.
    void begin_step(std::int64_t iteration);
    void end_step();
    // A finished step: the trace is written after its last one.
    void add(const StepReport& report, const StepSetup& step, Outcome outcome);
    // Whether it is time for a line: by --log-interval, and after the first step.
    bool is_due(std::int64_t iteration) const;
    // A line on the steps since the last one.
    void write(const Progress& progress);

    // A loss of evaluation; what: "validation", "test"; where: "iteration 100".
    void add_evaluation(const std::string& what, const std::string& where, double loss,
                        const Progress& progress);
    // What has just been done beside steps is not part of their time.
    void leave_out(Clock::duration time) { interval_.leave_out(time); }

  private:
    void write_trace();
    void add_metrics(const std::string& json);
    // A line or a trace that cannot be written is no reason to lose a run: said once each.
    template <class Write>
    void try_to(bool& failed, const Write& write) const;

    const options::Resolved& options_;
    comm::Runtime& runtime_;
    const EngineSetup& setup_;
    std::optional<MetricsFile> metrics_; // on rank 0, with --save
    std::optional<Recorder> recorder_;   // with --timing-log-level or --profile
    bool trace_written_ = false;
    bool metrics_failed_ = false, trace_failed_ = false; // and it was said
    std::optional<cluster::GpuMonitor> gpu_;             // with --log-gpu
    bool begun_ = false;                                 // a line was written
    LogInterval interval_;
};

} // namespace trireme::train
