// Training from a command line, alone or as one of many, and the comparison.
#include "support/one_rank.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>

#include "support/option_space.hpp"
#include "support/tiny_model.hpp"
#include "train/configure.hpp"

namespace trireme::test {
namespace {

// Those packed into one matrix are of one kind: without rotation a key's bias has no gradient but rounding.
std::string kind_of(const catalogue::Parameter& parameter) {
    return parameter.layer < 0 ? parameter.pack
                               : parameter.pack.substr(concat("layers.", parameter.layer, ".").size());
}

} // namespace

TrainingRun::TrainingRun(const std::string& line, int ranks) : options(resolve_line(line, ranks)) {
    const auto tokenizer = train::make_tokenizer(options);
    setup = train::engine_setup(options, train::model_vocabulary(options, *tokenizer), train::Purpose::train);
    setup.documents.end = tokenizer->end_of_document();
    rates = train::rate_schedule(options);
}

std::vector<double> TrainingRun::losses(train::Engine& engine, Omitting* omitting) const {
    engine.initialise_weights();
    SyntheticBatches batches(setup, engine.groups().at.data);
    std::vector<double> result;
    for (std::int64_t step = 0; step < options.training.train_iters; ++step) {
        const std::int64_t consumed = step * setup.global_batch;
        batches.start_step(consumed);
        if (omitting != nullptr)
            omitting->start_step();
        const train::StepSetup of{.rates = rates.at(consumed), .global_batch = setup.global_batch};
        result.push_back(engine.train_step(batches, of).loss);
    }
    return result;
}

Numbers train_alone(const std::string& line) {
    const TrainingRun run(line, 1);
    const auto backend = backend::make_cpu_backend(1);
    const auto alone = comm::make_self_host_group();
    train::Engine engine(run.setup, comm::ProcessGroups::alone(*alone), *backend);
    Numbers result = run.losses(engine);
    for (const model::HeldParameter& held : engine.parameters().held()) {
        const auto* values = static_cast<const double*>(engine.parameters().weight(held).data());
        result.insert(result.end(), values, values + held.parameter.elements()); // without padding rows
    }
    return result;
}

void raise(double& most, double value) {
    if (!(value <= most))
        most = std::isnan(value) ? std::numeric_limits<double>::infinity() : value;
}

Deviation compare(const std::vector<double>& losses, const model::Parameters& parameters,
                  const Numbers& reference) {
    Deviation result;
    const std::span<const double> expected(reference.data(), losses.size());
    const double largest = *std::ranges::max_element(expected);
    for (std::size_t step = 0; step < losses.size(); ++step)
        raise(result.losses, std::fabs(losses[step] - expected[step]) / largest);

    std::map<std::string, std::size_t> first; // in the reference
    std::map<std::string, double> scale;      // the largest of a kind
    std::size_t position = losses.size();
    for (const catalogue::Parameter& parameter : catalogue::make_catalogue(parameters.setup().config, 1)) {
        first[parameter.name] = position;
        double& most = scale[kind_of(parameter)];
        for (std::int64_t i = 0; i < parameter.elements(); ++i)
            most = std::max(most, std::fabs(reference.at(position++)));
    }
    TRIREME_ASSERT(position == reference.size(), "the reference is another model");
    for (const model::HeldParameter& held : parameters.held()) {
        const auto* values = static_cast<const double*>(parameters.weight(held).data());
        const double before = result.parameters;
        topology::for_each_run(
            held.parameter.shape, held.shard.box, [&](std::int64_t begin, std::int64_t count) {
                const double* from =
                    reference.data() + first.at(held.parameter.name) + static_cast<std::size_t>(begin);
                for (std::int64_t i = 0; i < count; ++i)
                    raise(result.parameters, std::fabs(*values++ - from[i]) / scale[kind_of(held.parameter)]);
            });
        if (result.parameters > before)
            result.where = held.parameter.name;
    }
    return result;
}

} // namespace trireme::test
