// When a run has to stop before its last step: a signal, the time limit of its job, --exit-duration-in-mins.
// Ranks learn of it at different moments (a signal may reach one of them only), so they agree at step
// boundaries.
//
//     USR1 to rank 2 ----> its flag
//     step ends; all ranks: sum up flags and clocks  ----> all stop: save, exit 75
//
// A step that is longer than the time left is left at one of its micro-batches (CutShort): nothing of it
// counts, the state is that of the step before.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "clock.hpp"
#include "trireme/cluster/slurm.hpp"
#include "trireme/comm/runtime.hpp"
#include "trireme/options/resolve.hpp"
#include "trireme/pipeline/executor.hpp"

namespace trireme::train {

// "USR1" of SIGUSR1; the number of one without a name here.
std::string signal_name(int signal);

struct Stop {
    std::string reason; // as in last_exit: "signal", "time-limit", "duration"; "": go on
    int signal = 0;
    explicit operator bool() const { return !reason.empty(); }
    std::string text() const; // "a signal (USR1)": for people
};

// What the coming work may take, as far as it was measured.
struct Needs {
    double step_seconds = 0; // until the next decision
    double save_seconds = 0;
};

class StopRequests {
  public:
    // Heeds the signals that the options name, until its end; after a stop was decided they stay without
    // effect, as the launcher may repeat them while the run ends. Collective over the world.
    StopRequests(const options::Resolved::Exit& options, comm::Runtime& runtime,
                 const std::optional<cluster::SlurmJob>& job, Clock::time_point program_start);
    ~StopRequests();
    StopRequests(const StopRequests&) = delete;
    StopRequests& operator=(const StopRequests&) = delete;

    // Between two steps: whether to stop here. --exit-duration-in-mins (all) is heeded only after a step, so
    // that a run that is started again and again gets on. Collective over the world; the same on all ranks.
    enum class Heed : std::uint8_t { signals_and_job, all };
    Stop decide(Heed heed, const Needs& needs);
    // Whether the rest of what has begun, and a save after it, no longer fit into the time that is left. This
    // rank's view alone.
    bool hurried(const Needs& needs) const;
    // The same of any rank. Collective over the world.
    bool any_hurried(const Needs& needs);
    // Whether anything can stop the run early.
    bool active() const { return !options_.signals.empty() || options_.duration_minutes > 0; }

    // "time left 23 h 12 min (Slurm)"; "" if nothing limits the run.
    std::string limits() const;

  private:
    std::optional<double> seconds_left() const;
    bool time_is_up(const Needs& needs);

    options::Resolved::Exit options_;
    comm::HostGroup& world_;
    std::optional<cluster::SlurmJob> job_;
    Clock::time_point program_start_;
    std::optional<std::int64_t> end_time_; // of the job, seconds since 1970
    bool stopping_ = false;
};

// Lets the ranks agree, in passing, at which micro-batch a step is left because time runs out. One for each
// step.
class CutShort : public pipeline::StepGate {
  public:
    // Collective over the world. stages: of the pipeline; ranks may be that many micro-batches apart.
    CutShort(comm::HostGroup& world, int stages, const StopRequests& requests);
    void begin(const Needs& needs); // each step
    bool enters(std::int64_t micro_batch) override;
    void finish() override { vote_->finish(); }

  private:
    std::unique_ptr<comm::RollingVote> vote_;
    const StopRequests& requests_;
    Needs needs_;
    Clock::time_point start_;
};

} // namespace trireme::train
