// Lines of the log and metrics.
#include "training_log.hpp"

#include <ctime>
#include <filesystem>

#include "gpu_line.hpp"
#include "say.hpp"
#include "trireme/base/file.hpp"

namespace trireme::train {
namespace {

std::string time_now() {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    ::localtime_r(&now, &local);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
    return text;
}

} // namespace

TrainingLog::TrainingLog(const options::Resolved& options, comm::Runtime& runtime, backend::Backend& backend,
                         const EngineSetup& setup, MetricsStart start)
    : options_(options), runtime_(runtime), setup_(setup) {
    comm::agree(runtime.world(), [&] {
        if (runtime.rank() == 0 && !options.checkpoint.save.empty())
            metrics_.emplace(options.checkpoint.save, start);
    });
    const options::Resolved::Run& run = options.run;
    if (run.timing_log_level > 0 || run.profiled_steps > 0)
        recorder_.emplace(
            Recorder::Wanted{run.timing_log_level > 0,
                             run.timing_log_level > 1 ? TimingDetail::phases : TimingDetail::kinds,
                             run.profiled_steps},
            backend, runtime.rank());
    if (run.log_gpu)
        comm::agree(runtime.world(), [&] { gpu_.emplace(backend.pci_address()); });
    interval_ = LogInterval();
}

void TrainingLog::begin_step(std::int64_t iteration) {
    if (recorder_)
        recorder_->begin_step(iteration);
}

void TrainingLog::end_step() {
    if (recorder_)
        recorder_->end_step();
}

void TrainingLog::add(const StepReport& report, const StepSetup& step, Outcome outcome) {
    if (recorder_ && recorder_->trace_complete() && !trace_written_)
        write_trace();
    interval_.add(report, step, outcome);
}

void TrainingLog::write_trace() {
    const std::string trace = recorder_->take_trace(runtime_.world(), runtime_.hosts());
    const std::filesystem::path path =
        std::filesystem::path(options_.checkpoint.save.empty() ? "." : options_.checkpoint.save) /
        "trace.json";
    try_to(trace_failed_, [&] {
        publish_file(path, trace);
        say(runtime_, concat(" wrote ", path.string(), ": open it in ui.perfetto.dev or chrome://tracing"));
    });
    trace_written_ = true;
}

template <class Write>
void TrainingLog::try_to(bool& failed, const Write& write) const {
    if (runtime_.rank() != 0)
        return;
    try {
        write();
        failed = false;
    } catch (const Error& error) {
        if (!failed)
            warn(concat(error.message(), "; training goes on"));
        failed = true;
    }
}

bool TrainingLog::is_due(std::int64_t iteration) const {
    return iteration % options_.run.log_interval == 0 || !begun_;
}

void TrainingLog::write(const Progress& progress) {
    IterationLine line;
    line.time = time_now();
    line.iteration = progress.iteration();
    line.train_iterations = options_.training.train_iters;
    line.consumed_samples = progress.consumed_samples();
    line.loss_scale = progress.loss_scale().value();
    line.skipped_iterations = progress.skipped_iterations();
    line.nan_iterations = progress.nan_iterations();
    interval_.fill(line, Clock::now(), setup_);
    say(runtime_, format(line));
    if (recorder_) {
        const std::string timing = recorder_->take_timing(runtime_.world(), runtime_.hosts());
        if (!timing.empty())
            say(runtime_, timing);
    }
    if (gpu_)
        say(runtime_, gpu_line(*gpu_, runtime_.world(), runtime_.hosts()));
    add_metrics(json(line));
    begun_ = true;
    interval_ = LogInterval();
}

void TrainingLog::add_evaluation(const std::string& what, const std::string& where, double loss,
                                 const Progress& progress) {
    say(runtime_, format_evaluation(what, where, loss));
    add_metrics(json_evaluation(what, progress.iteration(), progress.consumed_samples(), loss));
}

void TrainingLog::add_metrics(const std::string& json) {
    try_to(metrics_failed_, [&] {
        if (metrics_)
            metrics_->add(json);
    });
}

} // namespace trireme::train
