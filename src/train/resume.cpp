// Chooses a checkpoint and takes from it what the options want.
#include "resume.hpp"

#include "clock.hpp"
#include "say.hpp"
#include "selection.hpp"

namespace trireme::train {

Resume::Resume(const options::Resolved& options, comm::Runtime& runtime)
    : options_(options), runtime_(runtime), progress_(options) {
    choose();
}

// The data is loaded, and checked, when the engine is there.
void Resume::choose() {
    progress_ = Progress(options_);
    changed_rates_.clear();
    const std::string& directory = options_.checkpoint.load;
    if (directory.empty())
        return;
    selection_ = checkpoint::select(runtime_.world(), directory, wanted_checkpoint(options_), damaged_);
    comm::agree(runtime_.world(), [&] {
        if (!selection_.checkpoint && options_.checkpoint.exit_on_missing_checkpoint)
            throw Error(ErrorCategory::checkpoint, concat("there is no checkpoint in ", directory),
                        {"--load names it and --exit-on-missing-checkpoint is given",
                         "try: another --load, or leave --exit-on-missing-checkpoint out to start fresh"});
        if (selection_.checkpoint)
            take_counters();
    });
}

void Resume::take_counters() {
    saved_ = checkpoint::read_state(*selection_.checkpoint);
    if (weights_only())
        return;
    changed_rates_ = progress_.restore(saved_);
    if (options_.checkpoint.load_optim && !saved_.has_optimizer)
        throw Error(ErrorCategory::checkpoint,
                    concat(selection_.checkpoint->string(), " holds no optimizer state"),
                    {"it was saved with --no-save-optim",
                     "try: --no-load-optim, or --finetune to start at iteration 0"});
}

bool Resume::load(const checkpoint::Model& model) {
    if (!selection_.checkpoint)
        return true;
    const Clock::time_point start = Clock::now();
    const std::filesystem::path path = *selection_.checkpoint;
    comm::agree(runtime_.world(), [&] { checkpoint::require_model(path, *model.parameters); });
    const std::optional<Error> failure = comm::attempt(runtime_.world(), [&] { fill(model); });
    seconds_ += seconds_since(start);
    if (!failure)
        return true;
    damaged_.push_back({path, first_words(*failure)});
    choose();
    comm::agree(runtime_.world(), [&] {
        if (!selection_.checkpoint)
            throw Error(ErrorCategory::checkpoint,
                        concat("the checkpoints in ", options_.checkpoint.load, " went while one was read"),
                        {concat(path.string(), ": ", damaged_.back().reason),
                         "try: what else removes files there; then --load of what is left, or of a copy"});
    });
    if (options_.values.use_checkpoint_args)
        comm::agree(runtime_.world(),
                    [&] { require_same_model_options(damaged_.front().checkpoint, *selection_.checkpoint); });
    return false;
}

void Resume::fill(const checkpoint::Model& model) const {
    checkpoint::load(*selection_.checkpoint, model,
                     with_optimizer() ? checkpoint::Loads::all : checkpoint::Loads::weights);
    model.optimizer->set_steps(with_optimizer() ? saved_.optimizer_steps : 0);
}

void Resume::tell() const {
    const auto line = [&](const std::string& text) { say(runtime_, "          " + text); };
    if (!selection_.checkpoint) {
        if (const std::string& directory = options_.checkpoint.load; !directory.empty())
            say(runtime_, concat("resume    no checkpoint in ", directory, ": starting from scratch"));
        return;
    }
    warn_passed_over(selection_, runtime_);
    say(runtime_, concat("resume    ", selection_.checkpoint->string(), " (saved at ", saved_.layout,
                         "), loaded in ", show_seconds(seconds_),
                         weights_only()                   ? ", weights only, at iteration 0"
                         : options_.checkpoint.load_optim ? ""
                                                          : ", without optimizer state"));
    if (!weights_only())
        for (const std::string& difference : differing_options(saved_.options, options_))
            line(difference);
    const bool theirs = options_.optimizer.rates_from == options::RatesFrom::checkpoint;
    for (const std::string& change : changed_rates_)
        line(concat(theirs ? "the checkpoint's counts: " : "the option counts: ", change));
    if (!changed_rates_.empty() && !theirs)
        line("(--use-checkpoint-opt_param-scheduler: the checkpoint's schedule counts)");
    if (progress_.seed() != options_.training.seed)
        line(concat("dropout follows the checkpoint's seed ", progress_.seed(), ", the order of data --seed ",
                    options_.training.seed, " (--no-load-rng: both follow --seed)"));
}

} // namespace trireme::train
