// The training loop. At the end of each step, in Megatron-LM's order: log line, evaluation, save, exit
// interval.
#include "trireme/train/pretrain.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <iostream>
#include <optional>
#include <unistd.h>

#include "batches.hpp"
#include "configure.hpp"
#include "evaluation.hpp"
#include "first_screen.hpp"
#include "metrics.hpp"
#include "nan_examination.hpp"
#include "prepare_data.hpp"
#include "stop.hpp"
#include "trireme/base/file.hpp"
#include "trireme/catalogue/catalogue.hpp"
#include "trireme/checkpoint/checkpoint.hpp"
#include "trireme/comm/phase.hpp"
#include "trireme/train/log_line.hpp"

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

// Early and in words: a directory that cannot be written should not be found out after the first thousand
// steps.
void require_writable(const std::filesystem::path& directory) {
    std::error_code failure;
    std::filesystem::create_directories(directory, failure);
    if (failure)
        throw Error(ErrorCategory::output,
                    concat("cannot create the directory ", directory.string(), ": ", failure.message()),
                    {"--save names it", "try: a directory that you may write to"});
    if (::access(directory.c_str(), W_OK | X_OK) != 0)
        throw Error(ErrorCategory::output,
                    concat("cannot write to ", directory.string(), ": ", system_reason()),
                    {"--save names it", "try: a directory that you may write to"});
}

class Training {
  public:
    Training(const options::Resolved& options, comm::Runtime& runtime, const Launch& launch)
        : options_(options), runtime_(runtime), world_(runtime.world()), record_(*launch.record),
          requests_(options.exit, runtime, launch.job, launch.start),
          learning_rate_(train::learning_rate(options)) {
        comm::agree(world_, [&] {
            if (first_rank())
                record_.clear();
        });
        std::unique_ptr<data::Tokenizer> tokenizer;
        comm::agree(world_, [&] { tokenizer = make_tokenizer(options); });
        vocabulary_ = tokenizer->vocab_size();
        data::DatasetOptions paths = dataset_options(options, vocabulary_);
        prepare_data(paths, options.data.cache_path, *tokenizer, runtime,
                     [&](const std::string& text) { say(text); });
        comm::agree(world_, [&] {
            dataset_.emplace(paths);
            for (const data::Split split : wanted_parts(options, *dataset_))
                static_cast<void>(dataset_->info(split));
            if (!options.checkpoint.save.empty() && runtime.rank() == 0)
                require_writable(options.checkpoint.save);
        });
        find_checkpoint();
        comm::agree(world_, [&] { backend_ = make_backend(options, runtime); });
        EngineSetup setup = engine_setup(options, vocabulary_, Purpose::train);
        setup.seed = state_.seed;
        engine_.emplace(setup, comm::ProcessGroups(runtime, setup.grid, *backend_), *backend_);
        show_first_screen();
        start_weights();
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
        interval_start_ = Clock::now();
        bool at_interval = false;
        for (std::int64_t iteration = state_.iteration + 1; iteration <= last && !stop_ && !at_interval;
             ++iteration) {
            comm::set_iteration(iteration);
            if (!step(batches, iteration, gate ? &*gate : nullptr))
                break;
            if (evaluation_is_due(iteration))
                evaluate_during_training(iteration);
            const std::int64_t save_interval = options_.checkpoint.save_interval;
            if (save_interval > 0 && iteration % save_interval == 0)
                save();
            if (iteration < last)
                stop_ = requests_.decide(StopRequests::Heed::all, needs(iteration + 1));
            const std::int64_t exit_interval = options_.training.exit_interval;
            at_interval = exit_interval > 0 && iteration % exit_interval == 0;
        }
        const bool nothing_new = stop_ && !stepped_;
        if (!options_.checkpoint.save.empty() && saved_iteration_ != state_.iteration && !nothing_new)
            save();
        if (!stop_ && !at_interval)
            evaluate_at_the_end();
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

    // Says and records why the run ends; the exit code.
    int leave(bool at_interval) {
        const bool saved = !options_.checkpoint.save.empty();
        const int code = stop_ && saved ? static_cast<int>(ErrorCategory::interrupted) : 0;
        std::string reason = at_interval ? "exit-interval" : "iterations";
        if (stop_) {
            reason = stop_.reason;
            say(concat("stopped at iteration ", state_.iteration, " by ", stop_.text(), ": ",
                       !saved      ? "nothing is saved without --save"
                       : !stepped_ ? "no step was made, nothing had to be saved"
                                   : concat("saved in ", options_.checkpoint.save),
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

    void find_checkpoint() {
        state_.seed = options_.training.seed;
        const std::string& directory = options_.checkpoint.load;
        if (directory.empty())
            return;
        comm::agree(world_, [&] {
            checkpoint_ = checkpoint::find_latest(directory);
            if (!checkpoint_ && options_.checkpoint.exit_on_missing_checkpoint)
                throw Error(
                    ErrorCategory::checkpoint, concat("there is no checkpoint in ", directory),
                    {"--load names it and --exit-on-missing-checkpoint is given",
                     "try: another --load, or leave --exit-on-missing-checkpoint out to start fresh"});
            if (!checkpoint_)
                return;
            const checkpoint::State found = checkpoint::read_state(*checkpoint_);
            loaded_layout_ = found.layout;
            if (options_.checkpoint.finetune)
                return;
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

    void start_weights() {
        engine_->initialise_weights();
        const std::string& directory = options_.checkpoint.load;
        if (!checkpoint_) {
            if (!directory.empty())
                say(concat("resume    no checkpoint in ", directory, ": starting from scratch"));
            return;
        }
        const Clock::time_point start = Clock::now();
        const bool optimizer = options_.checkpoint.load_optim && !options_.checkpoint.finetune;
        checkpoint::Model model = saved_model();
        if (!optimizer)
            model.optimizer = nullptr;
        checkpoint::load(*checkpoint_, model);
        if (!optimizer)
            engine_->optimizer().copy_master_from_weights();
        engine_->optimizer().set_steps(state_.optimizer_steps);
        say(concat("resume    ", checkpoint_->string(), " (saved at ", loaded_layout_, "), loaded in ",
                   show_seconds(seconds_since(start)),
                   options_.checkpoint.finetune ? ", weights only, at iteration 0"
                   : optimizer                  ? ""
                                                : ", without optimizer state"));
        if (state_.seed != options_.training.seed)
            say(concat("          dropout follows the checkpoint's seed ", state_.seed,
                       ", the order of data --seed ", options_.training.seed,
                       " (--no-load-rng: both follow --seed)"));
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
        if (!first_rank())
            return;
        std::cout << version_line();
        for (const std::string& line : options::listing(options_))
            std::cout << line << "\n";
        for (const std::string& note : options_.notes)
            std::cout << "note      " << note << "\n";
        std::cout << engine << data;
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

    // False: the step was left because time ran out; nothing of it counts.
    bool step(DatasetBatches& batches, std::int64_t iteration, CutShort* gate) {
        const double rate = learning_rate_.at(state_.scheduled_samples);
        const Clock::time_point start = Clock::now();
        if (gate != nullptr)
            gate->begin({step_seconds_, expected_save_seconds()});
        const StepReport report = engine_->train_step(batches, rate, gate);
        if (report.abandoned) {
            stop_for_time();
            say(concat("iteration ", iteration, " is left before its end: the time left is needed to save"));
            return false;
        }
        stepped_ = true;
        record_.reached(iteration);
        step_seconds_ = std::max(seconds_since(start), 0.9 * step_seconds_);
        const std::int64_t samples = options_.batch.global_batch_size;
        batches.advance(samples);
        state_.iteration = iteration;
        state_.consumed_samples += samples;
        const bool good = report.updated && std::isfinite(report.loss);
        if (good) {
            state_.scheduled_samples += samples;
            ++good_steps_;
            loss_sum_ += report.loss;
        } else {
            ++nan_iterations_;
            bad_loss_ = report.loss;
            if (!report.updated)
                ++skipped_iterations_;
        }
        ++interval_steps_;
        const bool stop = !good && options_.training.check_for_nan;
        if (stop || iteration % options_.run.log_interval == 0 || !logged_)
            log(report, rate);
        if (stop && options_.training.rerun_nan && !report.updated) {
            const Error cause = find_cause(iteration);
            comm::agree(world_, [&] { throw cause; });
        }
        if (stop)
            comm::agree(world_, [&] { throw_non_finite(report, iteration); });
        return true;
    }

    std::string samples_of_step() const {
        return concat("samples ", state_.consumed_samples - options_.batch.global_batch_size, " to ",
                      state_.consumed_samples - 1);
    }

    void throw_non_finite(const StepReport& report, std::int64_t iteration) const {
        throw Error(
            ErrorCategory::non_finite, concat("loss or gradient is not finite in iteration ", iteration),
            {concat("lm loss ", report.loss, ", gradient norm ", report.gradient_norm, ", ",
                    samples_of_step()),
             "the weights were not updated by this step and nothing was saved after it",
             "try: resume from the last checkpoint with a lower --lr or a longer warm-up; "
             "--no-check-for-nan-in-loss-and-grad skips such steps instead; --rerun-nan tells model from "
             "hardware"});
    }

    // Repeats the step, which has changed no weight, and says what that shows.
    Error find_cause(std::int64_t iteration) {
        const std::vector<int> bad_loss = ranks_with_bad_loss(*engine_);
        const auto again = [&] {
            DatasetBatches batches(*dataset_, data::Split::train, *engine_,
                                   state_.consumed_samples - options_.batch.global_batch_size, workers());
            return examine(*engine_, *backend_, batches);
        };
        const Flaws first = again(), second = again();
        return judge_flaws(iteration, samples_of_step(), bad_loss, first, second, runtime_.hosts());
    }

    void log(const StepReport& report, double rate) {
        const EngineSetup& setup = engine_->setup();
        IterationLine line;
        line.time = time_now();
        line.iteration = state_.iteration;
        line.train_iterations = options_.training.train_iters;
        line.consumed_samples = state_.consumed_samples;
        line.seconds_per_iteration = seconds_since(interval_start_) / static_cast<double>(interval_steps_);
        line.tokens_per_second =
            static_cast<double>(setup.global_batch * setup.model.sequence) / line.seconds_per_iteration;
        line.tflops_per_rank = line.tokens_per_second / setup.grid.ranks() *
                               catalogue::flops_per_token(setup.model, catalogue::AttentionFlops::causal) /
                               1e12;
        line.learning_rate = rate;
        line.global_batch = setup.global_batch;
        // The mean over good steps; a step that was not good is never hidden behind them.
        line.loss =
            nan_in_interval() || good_steps_ == 0 ? bad_loss_ : loss_sum_ / static_cast<double>(good_steps_);
        line.gradient_norm = report.gradient_norm;
        line.skipped_iterations = skipped_iterations_;
        line.nan_iterations = nan_iterations_;
        say(format(line));
        comm::agree(world_, [&] {
            if (metrics_)
                metrics_->add(json(line));
        });
        logged_ = true;
        loss_sum_ = 0;
        good_steps_ = interval_steps_ = 0;
        interval_start_ = Clock::now();
    }
    bool nan_in_interval() const { return good_steps_ < interval_steps_; }

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

    checkpoint::Model saved_model() {
        return {&engine_->parameters(), &engine_->optimizer(), backend_.get(), &engine_->groups()};
    }

    void save() {
        const comm::PhaseScope phase("saving a checkpoint");
        const Clock::time_point start = Clock::now();
        checkpoint::State state = state_;
        state.optimizer_steps = engine_->optimizer().steps();
        state.options = options::to_config(options_.values, options_.sources);
        state.layout = engine_->groups().grid.text();
        checkpoint::Model model = saved_model();
        if (!options_.checkpoint.save_optim)
            model.optimizer = nullptr;
        const std::filesystem::path path = checkpoint::save(options_.checkpoint.save, state, model);
        saved_iteration_ = state_.iteration;
        save_seconds_ = std::max(save_seconds_, seconds_since(start));
        say(concat(" saved ", path.string(), " in ", show_seconds(seconds_since(start))));
        interval_start_ += Clock::now() - start;
    }

    const options::Resolved& options_;
    comm::Runtime& runtime_;
    comm::HostGroup& world_;
    ExitRecord& record_;
    StopRequests requests_;
    Stop stop_;
    optimizer::LearningRate learning_rate_;
    std::int64_t vocabulary_ = 0;
    std::optional<data::Dataset> dataset_;
    std::unique_ptr<backend::Backend> backend_;
    std::optional<Engine> engine_;
    std::optional<std::filesystem::path> checkpoint_; // to load from
    std::string loaded_layout_;
    checkpoint::State state_;
    std::int64_t saved_iteration_ = -1;
    std::optional<MetricsFile> metrics_; // on rank 0, with --save

    // Measured in this run; 0: not yet.
    double step_seconds_ = 0, evaluation_seconds_ = 0, save_seconds_ = 0;
    bool stepped_ = false;

    // Since the last log line.
    Clock::time_point interval_start_;
    std::int64_t interval_steps_ = 0, good_steps_ = 0;
    double loss_sum_ = 0, bad_loss_ = 0;
    bool logged_ = false;
    // Since the start.
    std::int64_t skipped_iterations_ = 0, nan_iterations_ = 0;
};

} // namespace

int pretrain(const options::Resolved& options, comm::Runtime& runtime, const Launch& launch) {
    return Training(options, runtime, launch).run();
}

} // namespace trireme::train
