// Generation and evaluation from a checkpoint, on any layout.
#include "trireme/train/generate.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>
#include <optional>

#include "configure.hpp"
#include "evaluation.hpp"
#include "first_screen.hpp"
#include "prepare_data.hpp"
#include "say.hpp"
#include "selection.hpp"
#include "trireme/base/philox.hpp"
#include "trireme/checkpoint/checkpoint.hpp"
#include "trireme/comm/phase.hpp"
#include "trireme/train/log_line.hpp"

namespace trireme::train {
namespace {

// The checkpoint that the options ask for, leaving aside those whose data could not be loaded. Collective.
checkpoint::Selection require_checkpoint(const options::Resolved& options, comm::Runtime& runtime,
                                         const std::vector<checkpoint::PassedOver>& damaged = {}) {
    checkpoint::Selection selection =
        checkpoint::select(runtime.world(), options.checkpoint.load, wanted_checkpoint(options), damaged);
    comm::agree(runtime.world(), [&] {
        if (!selection.checkpoint)
            throw Error(ErrorCategory::checkpoint,
                        concat("there is no checkpoint in ", options.checkpoint.load),
                        {"--load names it", "try: the --save directory of a trained model"});
    });
    return selection;
}

// An engine with the weights of the selected checkpoint, or of the newest earlier one that is whole, as a run
// that resumes takes it. Collective.
struct Loaded {
    std::unique_ptr<backend::Backend> backend;
    std::optional<Engine> engine;
    checkpoint::Selection selection;

    Loaded(const options::Resolved& options, const data::Tokenizer& tokenizer, std::int64_t vocabulary,
           checkpoint::Selection selected, comm::Runtime& runtime)
        : selection(std::move(selected)) {
        comm::agree(runtime.world(), [&] { backend = make_backend(options, runtime); });
        EngineSetup setup = engine_setup(options, vocabulary, Purpose::forward_only);
        setup.documents.end = tokenizer.end_of_document();
        engine.emplace(setup, comm::ProcessGroups(runtime, setup.grid, *backend), *backend);
        std::vector<checkpoint::PassedOver> damaged;
        while (const std::optional<Error> failure = load()) {
            damaged.push_back({*selection.checkpoint, first_words(*failure)});
            selection = require_checkpoint(options, runtime, damaged);
            comm::agree(runtime.world(), [&] { // the options came from the first
                require_same_model_options(damaged.front().checkpoint, *selection.checkpoint);
            });
        }
        warn_passed_over(selection, runtime);
    }

  private:
    std::optional<Error> load() {
        comm::HostGroup& world = *engine->groups().world;
        comm::agree(world, [&] { checkpoint::require_model(*selection.checkpoint, engine->parameters()); });
        return comm::attempt(world, [&] {
            checkpoint::load(*selection.checkpoint,
                             {&engine->parameters(), nullptr, backend.get(), &engine->groups()});
        });
    }
};

// The context as the one micro-batch of a forward pass: the tokens so far, padded on the right, which a
// causal model does not look at.
class Context : public pipeline::BatchSource {
  public:
    Context(std::int64_t sequence, std::int64_t micro_batch, std::int32_t padding)
        : sequence_(sequence), micro_batch_(micro_batch), padding_(padding),
          tokens_(static_cast<std::size_t>(sequence * micro_batch), padding) {}

    // Row 0 becomes the last tokens that fit. Returns the position of the last one.
    std::int64_t set(std::span<const std::int32_t> all) {
        const auto fits = std::min(all.size(), static_cast<std::size_t>(sequence_));
        const std::span<const std::int32_t> used = all.last(fits);
        std::ranges::fill(tokens_, padding_);
        for (std::size_t t = 0; t < used.size(); ++t)
            tokens_[t * static_cast<std::size_t>(micro_batch_)] = used[t];
        return static_cast<std::int64_t>(fits) - 1;
    }

    std::int64_t first_sample(std::int64_t) const override { return 0; }
    model::MicroBatch load(std::int64_t number) override {
        return {number, 0, Tensor(std::span(tokens_), Shape{sequence_, micro_batch_}), {}};
    }

  private:
    std::int64_t sequence_, micro_batch_;
    std::int32_t padding_;
    std::vector<std::int32_t> tokens_;
};

// Draws from softmax(logits / temperature) over the top_k largest; temperature 0 takes the largest. The n-th
// draw of a seed is the same on every rank and layout.
std::int32_t choose(const std::vector<double>& logits, double temperature, std::int64_t top_k,
                    std::uint64_t seed, std::uint32_t number) {
    std::vector<std::int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    const auto larger = [&](std::int32_t a, std::int32_t b) {
        const double x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
        return x != y ? x > y : a < b;
    };
    const std::size_t kept =
        top_k > 0 ? std::min(order.size(), static_cast<std::size_t>(top_k)) : order.size();
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(temperature > 0 ? kept : 1),
                      order.end(), larger);
    if (temperature == 0)
        return order.front();
    const double largest = logits[static_cast<std::size_t>(order.front())];
    std::vector<double> weights(kept);
    for (std::size_t i = 0; i < kept; ++i)
        weights[i] = std::exp((logits[static_cast<std::size_t>(order[i])] - largest) / temperature);
    const PhiloxCounter words = philox4x32({number, 0, 0, 0}, philox_key(seed, RandomDomain::generation));
    double left = uniform_double(words[0], words[1]) * std::accumulate(weights.begin(), weights.end(), 0.0);
    for (std::size_t i = 0; i < kept; ++i) {
        left -= weights[i];
        if (left < 0)
            return order[i];
    }
    return order[kept - 1];
}

} // namespace

int generate(const options::Resolved& options, comm::Runtime& runtime) {
    std::unique_ptr<data::Tokenizer> tokenizer;
    std::int64_t vocabulary = 0;
    std::vector<std::int32_t> tokens;
    comm::agree(runtime.world(), [&] {
        tokenizer = make_tokenizer(options);
        vocabulary = model_vocabulary(options, *tokenizer);
        tokens = tokenizer->encode(options.generation.prompt);
        if (tokens.empty()) // something to continue: the start of a document
            tokens.push_back(tokenizer->end_of_document());
    });
    Loaded loaded(options, *tokenizer, vocabulary, require_checkpoint(options, runtime), runtime);
    Context context(options.model.seq_length, options.batch.micro_batch_size, tokenizer->end_of_document());
    const std::size_t prompt_tokens = tokens.size();
    for (std::int64_t i = 0; i < options.generation.max_new_tokens; ++i) {
        const comm::PhaseScope phase("generating token", i);
        const std::int64_t position = context.set(tokens);
        const std::vector<double> logits = loaded.engine->infer(context, position);
        const std::int32_t next = choose(logits, options.generation.temperature, options.generation.top_k,
                                         options.training.seed, static_cast<std::uint32_t>(i));
        if (next == tokenizer->end_of_document())
            break;
        tokens.push_back(next);
    }
    if (runtime.rank() == 0)
        std::cout << options.generation.prompt << tokenizer->decode(std::span(tokens).subspan(prompt_tokens))
                  << std::endl;
    return 0;
}

int evaluate(const options::Resolved& options, comm::Runtime& runtime) {
    std::unique_ptr<data::Tokenizer> tokenizer;
    std::int64_t vocabulary = 0;
    std::optional<data::Dataset> dataset;
    comm::agree(runtime.world(), [&] {
        tokenizer = make_tokenizer(options);
        vocabulary = model_vocabulary(options, *tokenizer);
    });
    checkpoint::Selection selected = require_checkpoint(options, runtime);
    data::DatasetOptions paths = dataset_options(options, vocabulary);
    prepare_data(paths, options.data.cache_path, *tokenizer, runtime,
                 [&](const std::string& text) { say(runtime, text); });
    comm::agree(runtime.world(), [&] {
        dataset.emplace(paths);
        for (const data::Split split : {data::Split::valid, data::Split::test})
            if (dataset->has(split))
                static_cast<void>(dataset->info(split));
        if (!dataset->has(data::Split::valid) && !dataset->has(data::Split::test))
            throw Error(ErrorCategory::usage,
                        concat("--split ", options.data.split, " leaves nothing to evaluate"),
                        {"evaluate reads the second (valid) and the third (test) part",
                         "try: --split 0,1,0 for all documents, or --valid-data-path"});
    });
    Loaded loaded(options, *tokenizer, vocabulary, std::move(selected), runtime);
    if (runtime.rank() == 0)
        std::cout << describe_documents(loaded.engine->setup());
    for (const data::Split split : {data::Split::valid, data::Split::test}) {
        if (!dataset->has(split))
            continue;
        const double loss = *mean_loss(*loaded.engine, *dataset, split, 0, options);
        say(runtime,
            format_evaluation(data::name_of(split), loaded.selection.checkpoint->filename().string(), loss));
    }
    return 0;
}

} // namespace trireme::train
