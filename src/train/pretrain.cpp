// The training loop. At the end of each step, in Megatron-LM's order: log line, evaluation, save, exit
// interval.
#include "trireme/train/pretrain.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <iostream>
#include <optional>

#include "batches.hpp"
#include "configure.hpp"
#include "evaluation.hpp"
#include "first_screen.hpp"
#include "gpu_line.hpp"
#include "metrics.hpp"
#include "nan_examination.hpp"
#include "prepare_data.hpp"
#include "recorder.hpp"
#include "replicas.hpp"
#include "saver.hpp"
#include "selection.hpp"
#include "stop.hpp"
#include "trireme/base/file.hpp"
#include "trireme/catalogue/catalogue.hpp"
#include "trireme/checkpoint/checkpoint.hpp"
#include "trireme/comm/phase.hpp"
#include "trireme/plan/screen.hpp"
#include "trireme/train/log_line.hpp"
#include "tuning.hpp"

namespace trireme::train {
namespace {

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string time_now() {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    ::localtime_r(&now, &local);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
    return text;
}

class Training {
  public:
    Training(const options::Resolved& options, comm::Runtime& runtime, const Launch& launch)
        : options_(options), runtime_(runtime), world_(runtime.world()), record_(*launch.record),
          requests_(options.exit, runtime, launch.job, launch.start), rates_(rate_schedule(options)),
          loss_scale_(loss_scale(options)) {
        if (!options.checkpoint.save.empty())
            saver_.emplace(options, runtime);
        record_.own(); // the directory is this run's now
        comm::agree(world_, [&] {
            if (first_rank())
                record_.clear();
        });
        std::unique_ptr<data::Tokenizer> tokenizer;
        comm::agree(world_, [&] {
            tokenizer = make_tokenizer(options);
            vocabulary_ = model_vocabulary(options, *tokenizer);
            end_of_document_ = tokenizer->end_of_document();
        });
        data::DatasetOptions paths = dataset_options(options, vocabulary_);
        prepare_data(paths, options.data.cache_path, *tokenizer, runtime,
                     [&](const std::string& text) { say(text); });
        comm::agree(world_, [&] {
            dataset_.emplace(paths);
            for (const data::Split split : wanted_parts(options, *dataset_))
                static_cast<void>(dataset_->info(split));
        });
        find_checkpoint();
        comm::agree(world_, [&] { backend_ = make_backend(options, runtime); });
        make_engine();
        show_first_screen();
        start_weights();
        const std::string products =
            tune(*engine_, *backend_, world_, options.checkpoint.load, options.checkpoint.save);
        if (!products.empty())
            say(products);
    }

    int run() {
        const std::int64_t last = options_.training.train_iters;
        DatasetBatches batches(*dataset_, data::Split::train, *engine_, state_.consumed_samples, workers());
        open_metrics();
        record_.reached(state_.iteration);
        std::optional<CutShort> gate;
        if (requests_.active())
            gate.emplace(world_, engine_->groups().grid.pipeline, requests_);
        stop_ = requests_.decide(StopRequests::Heed::signals_and_job, {}); // what came during the start
        start_recorder();
        start_gpu_monitor();
        interval_start_ = Clock::now();
        bool at_interval = false;
        for (std::int64_t iteration = state_.iteration + 1; iteration <= last && !stop_ && !at_interval;
             ++iteration) {
            comm::set_iteration(iteration);
            if (recorder_)
                recorder_->begin_step(iteration);
            if (!step(batches, iteration, gate ? &*gate : nullptr))
                break;
            if (saver_)
                saver_->poll();
            if (const std::int64_t every = options_.training.check_replicas;
                every > 0 && iteration % every == 0)
                check_replicas(*engine_, *backend_, iteration);
            if (evaluation_is_due(iteration))
                evaluate_during_training(iteration);
            const std::int64_t save_interval = options_.checkpoint.save_interval;
            if (save_interval > 0 && iteration % save_interval == 0)
                save(SaveKind::periodic);
            if (iteration < last)
                stop_ = requests_.decide(StopRequests::Heed::all, needs(iteration + 1));
            const std::int64_t exit_interval = options_.training.exit_interval;
            at_interval = exit_interval > 0 && iteration % exit_interval == 0;
        }
        if (saver_)
            saver_->finish();
        const bool nothing_new = stop_ && !stepped_;
        if (saver_ && options_.checkpoint.save_on_exit && !saver_->has_saved(state_.iteration) &&
            !nothing_new)
            save(SaveKind::last);
        if (!stop_ && !at_interval)
            evaluate_at_the_end();
        engine_->settle();
        return leave(at_interval);
    }

  private:
    bool first_rank() const { return runtime_.rank() == 0; }
    void say(const std::string& text) const {
        if (first_rank())
            std::cout << text << std::endl;
    }
    int workers() const { return static_cast<int>(options_.data.num_workers); }
    bool evaluates() const {
        return options_.evaluation.eval_interval > 0 && options_.evaluation.eval_iters > 0;
    }

    void make_engine() {
        EngineSetup setup = engine_setup(options_, vocabulary_, Purpose::train);
        setup.seed = state_.seed;
        setup.documents.end = end_of_document_;
        engine_.emplace(setup, comm::ProcessGroups(runtime_, setup.grid, *backend_), *backend_);
    }

    // Says and records why the run ends; the exit code.
    int leave(bool at_interval) {
        const int code = stop_ && saver_ ? static_cast<int>(ErrorCategory::interrupted) : 0;
        std::string reason = at_interval ? "exit-interval" : "iterations";
        if (stop_) {
            reason = stop_.reason;
            say(concat("stopped at iteration ", state_.iteration, " by ", stop_.text(), ": ",
                       !saver_                               ? "nothing is saved without --save"
                       : !stepped_                           ? "no step was made, nothing had to be saved"
                       : saver_->has_saved(state_.iteration) ? concat("saved in ", options_.checkpoint.save)
                                                             : "nothing was saved, by --no-save-on-exit",
                       code != 0 ? concat("; exit code ", code, ": start it again with --load to go on")
                                 : ""));
        } else if (at_interval) {
            say(concat("stopped at iteration ", state_.iteration, ", a multiple of --exit-interval ",
                       options_.training.exit_interval));
        }
        comm::agree(world_, [&] {
            if (first_rank())
                record_.write(reason, code, stop_.signal != 0 ? signal_name(stop_.signal) : "");
        });
        return code;
    }

    bool evaluation_is_due(std::int64_t iteration) const {
        return evaluates() && dataset_->has(data::Split::valid) &&
               iteration % options_.evaluation.eval_interval == 0;
    }

    // Of iteration `next`, as far as it is known.
    Needs needs(std::int64_t next) const {
        return {step_seconds_ + (evaluation_is_due(next) ? evaluation_seconds_ : 0), expected_save_seconds()};
    }

    double expected_save_seconds() const {
        if (save_seconds_ > 0 || options_.checkpoint.save.empty())
            return save_seconds_;
        // Not measured yet: as if a node wrote 500 MB/s. Data ranks that hold the same are counted twice: to
        // the safe side.
        const memory::Plan& plan = engine_->plan();
        const std::int64_t bytes =
            plan.bytes(memory::Category::weights) + plan.bytes(memory::Category::optimizer);
        return static_cast<double>(bytes * runtime_.ranks_on_node()) / 500e6;
    }

    // Chooses what to load and takes the state from it; the data is loaded, and checked, when the engine is
    // there.
    void find_checkpoint() {
        state_ = {};
        rates_ = rate_schedule(options_);
        loss_scale_ = optimizer::LossScale(train::loss_scale(options_));
        changed_rates_.clear();
        state_.seed = options_.training.seed;
        checkpoint_.reset();
        const std::string& directory = options_.checkpoint.load;
        if (directory.empty())
            return;
        selection_ = checkpoint::select(world_, directory, wanted_checkpoint(options_), damaged_);
        comm::agree(world_, [&] {
            checkpoint_ = selection_.checkpoint;
            if (!checkpoint_ && options_.checkpoint.exit_on_missing_checkpoint)
                throw Error(
                    ErrorCategory::checkpoint, concat("there is no checkpoint in ", directory),
                    {"--load names it and --exit-on-missing-checkpoint is given",
                     "try: another --load, or leave --exit-on-missing-checkpoint out to start fresh"});
            if (!checkpoint_)
                return;
            const checkpoint::State found = checkpoint::read_state(*checkpoint_);
            loaded_layout_ = found.layout;
            if (weights_only())
                return;
            if (found.loss_scale)
                loss_scale_.restore(*found.loss_scale);
            choose_rates(found);
            const std::uint64_t seed = options_.checkpoint.load_rng ? found.seed : options_.training.seed;
            state_ = found;
            state_.seed = seed;
            if (options_.checkpoint.load_optim && !found.has_optimizer)
                throw Error(ErrorCategory::checkpoint,
                            concat(checkpoint_->string(), " holds no optimizer state"),
                            {"it was saved with --no-save-optim",
                             "try: --no-load-optim, or --finetune to start at iteration 0"});
            if (!options_.checkpoint.load_optim)
                state_.optimizer_steps = 0;
        });
    }
    bool weights_only() const { return options_.checkpoint.finetune || selection_.release; }

    // The schedule of rates follows the options unless the user wants the checkpoint's; what differs is
    // shown.
    void choose_rates(const checkpoint::State& found) {
        const bool take = options_.optimizer.rates_from == options::RatesFrom::checkpoint;
        if (found.rates.empty() && !take)
            return; // written by a version that did not keep them
        const optimizer::RateSchedule saved = optimizer::rate_schedule_from_text(found.rates);
        changed_rates_ = optimizer::differences(rates_, saved);
        if (take)
            rates_ = saved;
    }

    void show_changed_rates() const {
        const bool takes = options_.optimizer.rates_from == options::RatesFrom::checkpoint;
        for (const std::string& change : changed_rates_)
            say(concat("          ", takes ? "the checkpoint's counts: " : "the option counts: ", change));
        if (!changed_rates_.empty() && !takes)
            say("          (--use-checkpoint-opt_param-scheduler: the checkpoint's schedule counts)");
    }

    // A checkpoint that turns out to be damaged is passed over as long as there is an earlier one.
    void start_weights() {
        engine_->initialise_weights();
        const std::string& directory = options_.checkpoint.load;
        const Clock::time_point start = Clock::now();
        while (checkpoint_) {
            comm::agree(world_, [&] { checkpoint::require_model(*checkpoint_, engine_->parameters()); });
            const std::optional<Error> failure = comm::attempt(world_, [&] { load_checkpoint(); });
            if (!failure)
                break;
            damaged_.push_back({*checkpoint_, first_words(*failure)});
            const std::uint64_t seed = state_.seed;
            find_checkpoint();
            if (checkpoint_ && options_.values.use_checkpoint_args)
                comm::agree(world_,
                            [&] { require_same_model_options(damaged_.front().checkpoint, *checkpoint_); });
            if (state_.seed != seed)
                make_engine();
        }
        if (!checkpoint_) {
            if (!directory.empty())
                say(concat("resume    no checkpoint in ", directory, ": starting from scratch"));
            return;
        }
        warn_passed_over(selection_, runtime_);
        if (saver_)
            saver_->keep(*checkpoint_);
        say(concat("resume    ", checkpoint_->string(), " (saved at ", loaded_layout_, "), loaded in ",
                   show_seconds(seconds_since(start)),
                   weights_only()                   ? ", weights only, at iteration 0"
                   : options_.checkpoint.load_optim ? ""
                                                    : ", without optimizer state"));
        if (!weights_only())
            for (const std::string& line : differing_options(state_.options, options_))
                say(concat("          ", line));
        show_changed_rates();
        if (state_.seed != options_.training.seed)
            say(concat("          dropout follows the checkpoint's seed ", state_.seed,
                       ", the order of data --seed ", options_.training.seed,
                       " (--no-load-rng: both follow --seed)"));
    }

    void load_checkpoint() {
        const bool optimizer = options_.checkpoint.load_optim && !weights_only();
        checkpoint::Model model = whole_model();
        if (!optimizer)
            model.optimizer = nullptr;
        checkpoint::load(*checkpoint_, model);
        if (!optimizer)
            engine_->optimizer().copy_master_from_weights();
        engine_->optimizer().set_steps(state_.optimizer_steps);
    }

    static std::string show_seconds(double seconds) {
        char text[32];
        std::snprintf(text, sizeof text, "%.1f s", seconds);
        return text;
    }

    void show_first_screen() {
        const std::string engine = describe_engine(*engine_, runtime_, *backend_);
        std::string data;
        comm::agree(world_, [&] { data = describe_data(options_, *dataset_); });
        const std::string saving = saver_ ? saver_->plan(saved_model()) : "";
        if (!first_rank())
            return;
        std::cout << version_line();
        for (const std::string& line : options::listing(options_))
            std::cout << line << "\n";
        for (const std::string& note : options_.notes)
            std::cout << "note      " << note << "\n";
        std::cout << engine << data << saving;
        if (const std::string limits = requests_.limits(); !limits.empty())
            std::cout << "stops     " << limits << "\n";
        std::cout << std::flush;
    }

    void open_metrics() {
        comm::agree(world_, [&] {
            if (first_rank() && !options_.checkpoint.save.empty())
                metrics_.emplace(options_.checkpoint.save,
                                 state_.iteration == 0 ? MetricsStart::fresh : MetricsStart::resumed);
        });
    }

    void start_gpu_monitor() {
        if (options_.run.log_gpu)
            comm::agree(world_, [&] { gpu_.emplace(backend_->pci_address()); });
    }

    void start_recorder() {
        const options::Resolved::Run& run = options_.run;
        if (run.timing_log_level == 0 && run.profiled_steps == 0)
            return;
        recorder_.emplace(
            Recorder::Wanted{run.timing_log_level > 0,
                             run.timing_log_level > 1 ? TimingDetail::phases : TimingDetail::kinds,
                             run.profiled_steps},
            *backend_, runtime_.rank());
    }

    void write_trace() {
        const std::string trace = recorder_->take_trace(world_, runtime_.hosts());
        const std::filesystem::path path =
            std::filesystem::path(options_.checkpoint.save.empty() ? "." : options_.checkpoint.save) /
            "trace.json";
        comm::agree(world_, [&] {
            if (first_rank())
                publish_file(path, trace);
        });
        say(concat(" wrote ", path.string(), ": open it in ui.perfetto.dev or chrome://tracing"));
        trace_written_ = true;
    }

    // False: the step was left because time ran out; nothing of it counts.
    bool step(DatasetBatches& batches, std::int64_t iteration, CutShort* gate) {
        const StepSetup setup{.rates = rates_.at(state_.scheduled_samples),
                              .loss_scale = loss_scale_.value(),
                              .global_batch = options_.batch.schedule.at(state_.consumed_samples)};
        const Clock::time_point start = Clock::now();
        if (gate != nullptr)
            gate->begin({step_seconds_, expected_save_seconds()});
        const StepReport report = engine_->train_step(batches, setup, gate);
        if (recorder_)
            recorder_->end_step();
        if (report.abandoned) {
            stop_for_time();
            say(concat("iteration ", iteration, " is left before its end: the time left is needed to save"));
            return false;
        }
        if (recorder_ && recorder_->trace_complete() && !trace_written_)
            write_trace();
        if (!stepped_ && engine_->setup().documents.any())
            say_if_no_document_ends(batches, setup);
        stepped_ = true;
        record_.reached(iteration);
        step_seconds_ = std::max(seconds_since(start), 0.9 * step_seconds_);
        batches.advance(setup.global_batch);
        state_.iteration = iteration;
        state_.consumed_samples += setup.global_batch;
        // Gradients that overflow a scale that can shrink say nothing about the model.
        const bool scaled_too_far = !report.updated && loss_scale_.can_shrink();
        const bool good = report.updated && std::isfinite(report.loss);
        loss_scale_.update(!report.updated);
        if (good) {
            state_.scheduled_samples += setup.global_batch;
            ++good_steps_;
            loss_sum_ += report.loss;
        } else {
            skipped_loss_ = report.loss;
            state_.nan_iterations += scaled_too_far ? 0 : 1;
            bad_steps_ += scaled_too_far ? 0 : 1;
            state_.skipped_iterations += report.updated ? 0 : 1;
        }
        ++interval_steps_;
        interval_samples_ += setup.global_batch;
        const bool stop = !good && !scaled_too_far && options_.training.check_for_nan;
        if (stop || iteration % options_.run.log_interval == 0 || !logged_)
            log(report, setup);
        if (stop && saver_)
            saver_->finish();
        if (stop && options_.training.rerun_nan && !report.updated) {
            const Error cause = find_cause(setup, iteration);
            comm::agree(world_, [&] { throw cause; });
        }
        if (stop)
            comm::agree(world_, [&] { throw_non_finite(report, setup, iteration); });
        return true;
    }

    // Data that were made without --append-eod never end a document.
    void say_if_no_document_ends(const DatasetBatches& batches, const StepSetup& step) const {
        if (batches.ends_seen(engine_->groups()) == 0)
            say(plan::screen_row("warning", no_document_ends(engine_->setup(), step.global_batch)));
    }

    std::string samples_of(const StepSetup& step) const {
        return concat("samples ", state_.consumed_samples - step.global_batch, " to ",
                      state_.consumed_samples - 1);
    }

    void throw_non_finite(const StepReport& report, const StepSetup& setup, std::int64_t iteration) const {
        throw Error(
            ErrorCategory::non_finite, concat("loss or gradient is not finite in iteration ", iteration),
            {concat("lm loss ", report.loss, ", gradient norm ", report.gradient_norm,
                    loss_scale_.dynamic() ? concat(", at the lowest loss scale ", setup.loss_scale) : "",
                    ", ", samples_of(setup)),
             "the weights were not updated by this step and nothing was saved after it",
             "try: resume from the last checkpoint with a lower --lr or a longer warm-up; "
             "--no-check-for-nan-in-loss-and-grad skips such steps instead; --rerun-nan tells model from "
             "hardware"});
    }

    // Repeats the step, which has changed no weight, and says what that shows.
    Error find_cause(const StepSetup& step, std::int64_t iteration) {
        const std::vector<int> bad_loss = ranks_with_bad_loss(*engine_);
        const auto again = [&] {
            DatasetBatches batches(*dataset_, data::Split::train, *engine_,
                                   state_.consumed_samples - step.global_batch, workers());
            return examine(*engine_, *backend_, batches, step);
        };
        const Flaws first = again(), second = again();
        return judge_flaws(iteration, samples_of(step), bad_loss, first, second, runtime_.hosts());
    }

    void log(const StepReport& report, const StepSetup& step) {
        const EngineSetup& setup = engine_->setup();
        IterationLine line;
        line.time = time_now();
        line.iteration = state_.iteration;
        line.train_iterations = options_.training.train_iters;
        line.consumed_samples = state_.consumed_samples;
        line.seconds_per_iteration = seconds_since(interval_start_) / static_cast<double>(interval_steps_);
        line.tokens_per_second =
            static_cast<double>(interval_samples_ * setup.model.sequence) / seconds_since(interval_start_);
        line.tflops_per_rank = line.tokens_per_second / setup.grid.ranks() *
                               catalogue::flops_per_token(setup.model, catalogue::AttentionFlops::causal) /
                               1e12;
        line.learning_rate = step.rates.learning_rate;
        line.global_batch = step.global_batch;
        // The mean over good steps; a loss that is not finite is never hidden behind them.
        line.loss =
            bad_steps_ > 0 || good_steps_ == 0 ? skipped_loss_ : loss_sum_ / static_cast<double>(good_steps_);
        line.loss_scale = loss_scale_.value();
        line.gradient_norm = report.gradient_norm;
        line.skipped_iterations = state_.skipped_iterations;
        line.nan_iterations = state_.nan_iterations;
        say(format(line));
        if (recorder_) {
            const std::string timing = recorder_->take_timing(world_, runtime_.hosts());
            if (!timing.empty())
                say(timing);
        }
        if (gpu_) {
            say(gpu_line(*gpu_, world_, runtime_.hosts()));
        }
        comm::agree(world_, [&] {
            if (metrics_)
                metrics_->add(json(line));
        });
        logged_ = true;
        loss_sum_ = 0;
        good_steps_ = bad_steps_ = interval_steps_ = interval_samples_ = 0;
        interval_start_ = Clock::now();
    }

    // Evaluates and reports; false, saying so, if there is no time left for it.
    bool evaluate(data::Split split, std::int64_t first_sample, const std::string& where) {
        const Clock::time_point start = Clock::now();
        LeavesEvaluation leaves;
        if (requests_.active())
            leaves = [&](double rest) {
                return requests_.any_hurried({rest * evaluation_seconds_, expected_save_seconds()});
            };
        const std::string what = split == data::Split::test ? "test" : "validation";
        const std::optional<double> loss =
            mean_loss(*engine_, *dataset_, split, first_sample, options_, leaves);
        if (loss) {
            evaluation_seconds_ = std::max(seconds_since(start), 0.9 * evaluation_seconds_);
            report_evaluation(what, where, *loss);
        } else {
            say(concat(" ", what, " at ", where, " is left out: the time left is needed to save"));
        }
        interval_start_ += Clock::now() - start; // not part of the time of an iteration
        return loss.has_value();
    }

    // The validation samples of evaluation k follow those of evaluation k - 1, so a resumed run sees the
    // same.
    void evaluate_during_training(std::int64_t iteration) {
        const std::int64_t before = iteration / options_.evaluation.eval_interval - 1;
        evaluate(data::Split::valid,
                 before * options_.evaluation.eval_iters * options_.batch.global_batch_size,
                 concat("iteration ", iteration));
    }

    // Left out for want of time, it is for the next attempt to make up for.
    void evaluate_at_the_end() {
        if (!evaluates())
            return;
        const std::string where = "the end of training";
        bool whole = true;
        if (dataset_->has(data::Split::valid) && state_.iteration % options_.evaluation.eval_interval != 0)
            whole = evaluate(data::Split::valid, 0, where);
        if (whole && dataset_->has(data::Split::test))
            whole = evaluate(data::Split::test, 0, where);
        if (!whole)
            stop_for_time();
    }

    void stop_for_time() {
        stop_ = requests_.decide(StopRequests::Heed::signals_and_job, {});
        if (!stop_)
            stop_.reason = "time-limit"; // moved a moment ago: too late
    }

    void report_evaluation(const std::string& what, const std::string& where, double loss) {
        say(format_evaluation(what, where, loss));
        comm::agree(world_, [&] {
            if (metrics_)
                metrics_->add(json_evaluation(what, state_.iteration, state_.consumed_samples, loss));
        });
    }

    checkpoint::Model whole_model() {
        return {&engine_->parameters(), &engine_->optimizer(), backend_.get(), &engine_->groups()};
    }
    checkpoint::Model saved_model() {
        checkpoint::Model model = whole_model();
        if (!options_.checkpoint.save_optim)
            model.optimizer = nullptr;
        return model;
    }

    void save(SaveKind kind) {
        const Clock::time_point start = Clock::now();
        checkpoint::State state = state_;
        state.optimizer_steps = engine_->optimizer().steps();
        state.rates = optimizer::to_text(rates_);
        if (loss_scale_.dynamic())
            state.loss_scale = loss_scale_.state();
        state.options = options::to_config(options_.values, options_.sources);
        state.layout = engine_->groups().grid.text();
        saver_->save(state, saved_model(), kind);
        save_seconds_ = std::max(save_seconds_, seconds_since(start));
        interval_start_ += Clock::now() - start;
    }

    const options::Resolved& options_;
    comm::Runtime& runtime_;
    comm::HostGroup& world_;
    ExitRecord& record_;
    StopRequests requests_;
    Stop stop_;
    optimizer::RateSchedule rates_;
    optimizer::LossScale loss_scale_;
    std::vector<std::string> changed_rates_; // on resuming
    std::int64_t vocabulary_ = 0;
    std::int32_t end_of_document_ = -1;
    std::optional<data::Dataset> dataset_;
    std::unique_ptr<backend::Backend> backend_;
    std::optional<Engine> engine_;
    std::optional<Saver> saver_;                      // with --save
    std::optional<std::filesystem::path> checkpoint_; // to load from
    checkpoint::Selection selection_;
    std::vector<checkpoint::PassedOver> damaged_; // those that could not be loaded
    std::string loaded_layout_;
    checkpoint::State state_;
    std::optional<MetricsFile> metrics_; // on rank 0, with --save
    std::optional<Recorder> recorder_;   // with --timing-log-level or --profile
    bool trace_written_ = false;
    std::optional<cluster::GpuMonitor> gpu_; // with --log-gpu

    // Measured in this run; 0: not yet.
    double step_seconds_ = 0, evaluation_seconds_ = 0, save_seconds_ = 0;
    bool stepped_ = false;

    // Since the last log line.
    Clock::time_point interval_start_;
    std::int64_t interval_steps_ = 0, interval_samples_ = 0, good_steps_ = 0, bad_steps_ = 0;
    double loss_sum_ = 0, skipped_loss_ = 0;
    bool logged_ = false;
};

} // namespace

int pretrain(const options::Resolved& options, comm::Runtime& runtime, const Launch& launch) {
    return Training(options, runtime, launch).run();
}

} // namespace trireme::train
