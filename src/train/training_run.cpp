// From options to a run that can step.
#include "training_run.hpp"

#include <iostream>

#include "configure.hpp"
#include "first_screen.hpp"
#include "gpu_queues.hpp"
#include "prepare_data.hpp"
#include "say.hpp"
#include "tuning.hpp"

namespace trireme::train {

TrainingRun::TrainingRun(const options::Resolved& options, comm::Runtime& runtime, const Launch& launch)
    : requests(options.exit, runtime, launch.job, launch.start), progress(options), options_(options),
      runtime_(runtime) {
    own_directory(*launch.record);
    comm::agree(runtime.world(), [&] { require_queues(options); });
    open_data();
    Resume resume(options, runtime);
    comm::agree(runtime.world(), [&] { backend = make_backend(options, runtime); });
    make_engine(resume.progress().seed());
    show_first_screen();
    set_weights(resume);
    const std::string products =
        tune(*engine, *backend, runtime.world(), options.checkpoint.load, options.checkpoint.save);
    if (!products.empty())
        say(runtime, products);
}

void TrainingRun::own_directory(ExitRecord& record) {
    if (!options_.checkpoint.save.empty())
        saver.emplace(options_, runtime_);
    record.own(); // the directory is this run's now
    comm::agree(runtime_.world(), [&] {
        if (runtime_.rank() == 0)
            record.clear();
    });
}

void TrainingRun::open_data() {
    std::unique_ptr<data::Tokenizer> tokenizer;
    comm::agree(runtime_.world(), [&] {
        tokenizer = make_tokenizer(options_);
        vocabulary_ = model_vocabulary(options_, *tokenizer);
        end_of_document_ = tokenizer->end_of_document();
    });
    data::DatasetOptions paths = dataset_options(options_, vocabulary_);
    prepare_data(paths, options_.data.cache_path, *tokenizer, runtime_,
                 [&](const std::string& text) { say(runtime_, text); });
    comm::agree(runtime_.world(), [&] {
        dataset.emplace(paths);
        for (const data::Split split : wanted_parts(options_, *dataset))
            static_cast<void>(dataset->info(split));
    });
}

void TrainingRun::make_engine(std::uint64_t seed) {
    EngineSetup setup = engine_setup(options_, vocabulary_, Purpose::train);
    setup.seed = seed;
    setup.documents.end = end_of_document_;
    engine.emplace(setup, comm::ProcessGroups(runtime_, setup.grid, *backend), *backend);
}

void TrainingRun::show_first_screen() {
    const std::string layout_and_memory = describe_engine(*engine, runtime_, *backend);
    std::string data;
    comm::agree(runtime_.world(), [&] { data = describe_data(options_, *dataset); });
    const std::string saving = saver ? saver->plan(saved_model()) : "";
    if (runtime_.rank() != 0)
        return;
    std::cout << version_line();
    for (const std::string& line : options::listing(options_))
        std::cout << line << "\n";
    for (const std::string& note : options_.notes)
        std::cout << "note      " << note << "\n";
    std::cout << layout_and_memory << data << saving;
    if (const std::string limits = requests.limits(); !limits.empty())
        std::cout << "stops     " << limits << "\n";
    std::cout << std::flush;
}

void TrainingRun::set_weights(Resume& resume) {
    const bool from_scratch = !resume.checkpoint();
    while (!resume.load(model()))
        if (resume.progress().seed() != engine->setup().seed)
            make_engine(resume.progress().seed());
    if (from_scratch)
        draw_weights();
    resume.tell();
    progress = resume.progress();
    if (saver && resume.checkpoint())
        saver->keep(*resume.checkpoint());
}

// A launcher that binds a rank to one core makes minutes of it, which should not look like a hang.
void TrainingRun::draw_weights() {
    constexpr std::int64_t kTenSeconds = 250'000'000; // values that a thread draws in about that time
    const std::int64_t values = engine->parameters().local_elements();
    const int threads = engine->setup().host_threads;
    if (values / threads > 2 * kTenSeconds)
        say(runtime_, concat("weights   drawing ", values / 1'000'000, " million values on ", threads,
                             threads == 1 ? " thread" : " threads",
                             " a rank (srun --cpus-per-task or mpirun --bind-to none gives it more)"));
    engine->initialise_weights();
}

checkpoint::Model TrainingRun::model() {
    return {&engine->parameters(), &engine->optimizer(), backend.get(), &engine->groups()};
}

checkpoint::Model TrainingRun::saved_model() {
    checkpoint::Model saved = model();
    if (!options_.checkpoint.save_optim)
        saved.optimizer = nullptr;
    return saved;
}

} // namespace trireme::train
