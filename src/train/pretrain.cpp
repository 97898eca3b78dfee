// The training loop. At the end of each step, in Megatron-LM's order: log line, evaluation, save, exit
// interval.
#include "trireme/train/pretrain.hpp"

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
#include "prepare_data.hpp"
#include "recorder.hpp"
#include "trireme/base/file.hpp"
#include "trireme/catalogue/catalogue.hpp"
#include "trireme/checkpoint/checkpoint.hpp"
#include "trireme/comm/phase.hpp"
#include "trireme/train/log_line.hpp"
#include "tuning.hpp"

namespace trireme::train {
namespace {

using Clock = std::chrono::steady_clock;

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
    Training(const options::Resolved& options, comm::Runtime& runtime)
        : options_(options), runtime_(runtime), world_(runtime.world()),
          learning_rate_(train::learning_rate(options)) {
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
        const std::string products =
            tune(*engine_, *backend_, world_, options.checkpoint.load, options.checkpoint.save);
        if (!products.empty())
            say(products);
    }

    int run() {
        const std::int64_t last = options_.training.train_iters;
        DatasetBatches batches(*dataset_, data::Split::train, *engine_, state_.consumed_samples, workers());
        open_metrics();
        start_recorder();
        interval_start_ = Clock::now();
        bool stopped = false;
        for (std::int64_t iteration = state_.iteration + 1; iteration <= last && !stopped; ++iteration) {
            comm::set_iteration(iteration);
            if (recorder_)
                recorder_->begin_step(iteration);
            step(batches, iteration);
            if (evaluates() && dataset_->has(data::Split::valid) &&
                iteration % options_.evaluation.eval_interval == 0)
                evaluate_during_training(iteration);
            const std::int64_t save_interval = options_.checkpoint.save_interval;
            if (save_interval > 0 && iteration % save_interval == 0)
                save();
            const std::int64_t exit_interval = options_.training.exit_interval;
            stopped = exit_interval > 0 && iteration % exit_interval == 0;
        }
        if (!options_.checkpoint.save.empty() && saved_iteration_ != state_.iteration)
            save();
        if (stopped)
            say(concat("stopped at iteration ", state_.iteration, ", a multiple of --exit-interval ",
                       options_.training.exit_interval));
        else
            evaluate_at_the_end();
        return 0;
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
        std::cout << engine << data << std::flush;
    }

    void open_metrics() {
        comm::agree(world_, [&] {
            if (first_rank() && !options_.checkpoint.save.empty())
                metrics_.emplace(options_.checkpoint.save,
                                 state_.iteration == 0 ? MetricsStart::fresh : MetricsStart::resumed);
        });
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

    void step(DatasetBatches& batches, std::int64_t iteration) {
        const double rate = learning_rate_.at(state_.scheduled_samples);
        const StepReport report = engine_->train_step(batches, rate);
        if (recorder_)
            recorder_->end_step();
        if (recorder_ && recorder_->trace_complete() && !trace_written_)
            write_trace();
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
        if (stop)
            comm::agree(world_, [&] { throw_non_finite(report, iteration); });
    }

    void throw_non_finite(const StepReport& report, std::int64_t iteration) const {
        throw Error(ErrorCategory::non_finite,
                    concat("loss or gradient is not finite in iteration ", iteration),
                    {concat("lm loss ", report.loss, ", gradient norm ", report.gradient_norm, ", samples ",
                            state_.consumed_samples - options_.batch.global_batch_size, " to ",
                            state_.consumed_samples - 1),
                     "the weights were not updated by this step and nothing was saved after it",
                     "try: resume from the last checkpoint with a lower --lr or a longer warm-up; "
                     "--no-check-for-nan-in-loss-and-grad skips such steps instead"});
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
        if (recorder_) {
            const std::string timing = recorder_->take_timing(world_, runtime_.hosts());
            if (!timing.empty())
                say(timing);
        }
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

    double evaluate(data::Split split, std::int64_t first_sample) {
        return mean_loss(*engine_, *dataset_, split, first_sample, options_);
    }

    // The validation samples of evaluation k follow those of evaluation k - 1, so a resumed run sees the
    // same.
    void evaluate_during_training(std::int64_t iteration) {
        const Clock::time_point start = Clock::now();
        const std::int64_t before = iteration / options_.evaluation.eval_interval - 1;
        const double loss = evaluate(data::Split::valid, before * options_.evaluation.eval_iters *
                                                             options_.batch.global_batch_size);
        report_evaluation("validation", concat("iteration ", iteration), loss);
        interval_start_ += Clock::now() - start; // not part of the time of an iteration
    }

    void evaluate_at_the_end() {
        if (!evaluates())
            return;
        if (dataset_->has(data::Split::valid) && state_.iteration % options_.evaluation.eval_interval != 0)
            report_evaluation("validation", "the end of training", evaluate(data::Split::valid, 0));
        if (dataset_->has(data::Split::test))
            report_evaluation("test", "the end of training", evaluate(data::Split::test, 0));
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
        say(concat(" saved ", path.string(), " in ", show_seconds(seconds_since(start))));
        interval_start_ += Clock::now() - start;
    }

    const options::Resolved& options_;
    comm::Runtime& runtime_;
    comm::HostGroup& world_;
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
    std::optional<Recorder> recorder_;   // with --timing-log-level or --profile
    bool trace_written_ = false;

    // Since the last log line.
    Clock::time_point interval_start_;
    std::int64_t interval_steps_ = 0, good_steps_ = 0;
    double loss_sum_ = 0, bad_loss_ = 0;
    bool logged_ = false;
    // Since the start.
    std::int64_t skipped_iterations_ = 0, nan_iterations_ = 0;
};

} // namespace

int pretrain(const options::Resolved& options, comm::Runtime& runtime) {
    return Training(options, runtime).run();
}

} // namespace trireme::train
