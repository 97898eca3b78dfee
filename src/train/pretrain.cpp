// The training loop. At the end of each step, in Megatron-LM's order: log line, evaluation, save, exit
// interval.
#include "trireme/train/pretrain.hpp"

#include <optional>

#include "batches.hpp"
#include "clock.hpp"
#include "evaluations.hpp"
#include "expected_times.hpp"
#include "first_screen.hpp"
#include "non_finite.hpp"
#include "replicas.hpp"
#include "say.hpp"
#include "training_log.hpp"
#include "training_run.hpp"
#include "trireme/comm/phase.hpp"
#include "trireme/plan/screen.hpp"

namespace trireme::train {
namespace {

class Training {
  public:
    Training(TrainingRun& run, const options::Resolved& options, comm::Runtime& runtime, ExitRecord& record)
        : run_(run), options_(options), runtime_(runtime), record_(record), progress_(run.progress),
          engine_(*run.engine), saver_(run.saver),
          batches_(*run.dataset, data::Split::train, engine_, progress_.consumed_samples(),
                   static_cast<int>(options.data.num_workers)),
          times_(saver_ ? unmeasured_save_seconds(engine_.plan(), runtime.ranks_on_node()) : 0),
          log_(options, runtime, *run.backend, engine_.setup(),
               progress_.iteration() == 0 ? MetricsStart::fresh : MetricsStart::resumed),
          evaluations_(options, runtime, engine_, *run.dataset, run.requests, times_, log_) {
        record_.reached(progress_.iteration());
        if (run.requests.active())
            gate_.emplace(runtime.world(), engine_.groups().grid.pipeline, run.requests);
    }

    int loop() {
        const std::int64_t last = options_.training.train_iters;
        stop_ = run_.requests.decide(StopRequests::Heed::signals_and_job, {}); // what came during the start
        while (progress_.iteration() < last && !stop_ && !at_exit_interval_) {
            const std::int64_t iteration = progress_.iteration() + 1;
            comm::set_iteration(iteration);
            if (!step(iteration))
                break;
            if (saver_)
                saver_->poll();
            if (is_multiple(iteration, options_.training.check_replicas))
                check_replicas(engine_, *run_.backend, iteration);
            if (evaluations_.is_due(iteration))
                evaluations_.after_step(progress_);
            if (is_multiple(iteration, options_.checkpoint.save_interval))
                save(SaveKind::periodic);
            if (iteration < last)
                stop_ = run_.requests.decide(StopRequests::Heed::all, evaluations_.is_due(iteration + 1)
                                                                          ? times_.step_and_evaluation()
                                                                          : times_.step());
            at_exit_interval_ = iteration < last && is_multiple(iteration, options_.training.exit_interval);
        }
        save_at_the_end();
        if (!stop_ && !at_exit_interval_ && !evaluations_.at_the_end(progress_))
            stop_for_time();
        engine_.settle();
        return leave();
    }

  private:
    // An interval of 0: never.
    static bool is_multiple(std::int64_t iteration, std::int64_t interval) {
        return interval > 0 && iteration % interval == 0;
    }

    // False: the step was left because time ran out; nothing of it counts.
    bool step(std::int64_t iteration) {
        log_.begin_step(iteration);
        const StepSetup setup = progress_.next_step();
        const Clock::time_point start = Clock::now();
        if (gate_)
            gate_->begin(times_.step());
        const StepReport report = engine_.train_step(batches_, setup, gate_ ? &*gate_ : nullptr);
        log_.end_step();
        if (report.abandoned) {
            stop_for_time();
            say(runtime_,
                concat("iteration ", iteration, " is left before its end: the time left is needed to save"));
            return false;
        }
        if (!stepped_)
            warn_if_no_document_ends(setup);
        stepped_ = true;
        record_.reached(iteration);
        times_.step_took(seconds_since(start));
        batches_.advance(setup.global_batch);
        const Outcome outcome = progress_.count(report, setup);
        const bool fatal = outcome == Outcome::not_finite && options_.training.check_for_nan;
        log_.add(report, setup, outcome);
        if (fatal || log_.is_due(iteration))
            log_.write(progress_);
        if (fatal)
            end_at(report, setup);
        return true;
    }

    // Data that were made without --append-eod never end a document.
    void warn_if_no_document_ends(const StepSetup& step) const {
        if (engine_.setup().documents.any() && batches_.ends_seen(engine_.groups()) == 0)
            say(runtime_, plan::screen_row("warning", no_document_ends(engine_.setup(), step.global_batch)));
    }

    // The last step was not finite.
    void end_at(const StepReport& report, const StepSetup& setup) {
        if (saver_)
            saver_->finish();
        const Error error = non_finite_error({report, setup, progress_}, options_, runtime_, engine_,
                                             *run_.backend, *run_.dataset);
        comm::agree(runtime_.world(), [&] { throw error; });
    }

    void stop_for_time() {
        stop_ = run_.requests.decide(StopRequests::Heed::signals_and_job, {});
        if (!stop_)
            stop_.reason = "time-limit"; // moved a moment ago: too late
    }

    void save(SaveKind kind) {
        const Clock::time_point start = Clock::now();
        const checkpoint::State state =
            progress_.state(engine_.optimizer().steps(), engine_.groups().grid.text());
        saver_->save(state, run_.saved_model(), kind);
        times_.save_took(seconds_since(start));
        log_.leave_out(Clock::now() - start);
    }

    void save_at_the_end() {
        if (!saver_)
            return;
        saver_->finish();
        // Without a step the checkpoint that was loaded is as good, or better: it may have been loaded in
        // part.
        const bool nothing_new = !stepped_ && (stop_ || options_.checkpoint.load == options_.checkpoint.save);
        if (options_.checkpoint.save_on_exit && !saver_->has_saved(progress_.iteration()) && !nothing_new)
            save(SaveKind::last);
    }

    // Says and records why the run ends; the exit code.
    int leave() {
        const std::int64_t iteration = progress_.iteration();
        const bool goes_on = saver_ && (saver_->has_saved(iteration) || !stepped_);
        const int code = stop_ && goes_on ? static_cast<int>(ErrorCategory::interrupted) : 0;
        std::string reason = at_exit_interval_ ? "exit-interval" : "iterations";
        if (stop_) {
            reason = stop_.reason;
            say(runtime_,
                concat("stopped at iteration ", iteration, " by ", stop_.text(), ": ",
                       !saver_                        ? "nothing is saved without --save"
                       : !stepped_                    ? "no step was made, nothing had to be saved"
                       : saver_->has_saved(iteration) ? concat("saved in ", options_.checkpoint.save)
                                                      : "nothing was saved, by --no-save-on-exit",
                       code != 0 ? concat("; exit code ", code, ": start it again with --load to go on")
                                 : ""));
        } else if (at_exit_interval_) {
            say(runtime_,
                concat("stopped at iteration ", iteration, ", a multiple of --exit-interval ",
                       options_.training.exit_interval, saver_ ? "" : ": nothing is saved without --save"));
        } else if (!stepped_) {
            say(runtime_, concat("no step was made: the run is at iteration ", iteration,
                                 " and ends at --train-iters ", options_.training.train_iters));
        }
        comm::agree(runtime_.world(), [&] {
            if (runtime_.rank() == 0)
                record_.write(reason, code, stop_.signal != 0 ? signal_name(stop_.signal) : "");
        });
        return code;
    }

    TrainingRun& run_;
    const options::Resolved& options_;
    comm::Runtime& runtime_;
    ExitRecord& record_;
    Progress& progress_;
    Engine& engine_;
    std::optional<Saver>& saver_; // with --save
    DatasetBatches batches_;
    ExpectedTimes times_;
    TrainingLog log_;
    Evaluations evaluations_;
    std::optional<CutShort> gate_; // if anything can stop the run early
    Stop stop_;
    bool stepped_ = false, at_exit_interval_ = false;
};

} // namespace

int pretrain(const options::Resolved& options, comm::Runtime& runtime, const Launch& launch) {
    TrainingRun run(options, runtime, launch);
    return Training(run, options, runtime, *launch.record).loop();
}

} // namespace trireme::train
