// Training from a command line, alone or as one of many, and the comparison.
#include "support/one_rank.hpp"

#include <algorithm>
#include <array>
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

// Of the parameters that this rank holds.
Deviation deviation_here(const model::Parameters& parameters, std::span<const double> reference) {
    Deviation result;
    std::map<std::string, std::size_t> first; // in the reference
    std::map<std::string, double> scale;      // the largest of a kind
    std::size_t position = 0;
    for (const catalogue::Parameter& parameter : catalogue::make_catalogue(parameters.setup().config, 1)) {
        first[parameter.name] = position;
        double& most = scale[kind_of(parameter)];
        for (std::int64_t i = 0; i < parameter.elements(); ++i)
            most = std::max(most, std::fabs(reference[position++]));
    }
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

// Elements that this rank answers for, so that all ranks together answer for each once.
double own_elements(const train::Engine& engine, const model::Parameters& parameters) {
    double sum = 0;
    for (const model::HeldParameter& held : parameters.held())
        if (engine.groups().at.data == 0 && held.role == model::Role::owner && held.shard.holder == 0)
            sum += static_cast<double>(held.shard.box.elements());
    return sum;
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
    return numbers_of(run.losses(engine), engine);
}

Numbers numbers_of(std::vector<double> losses, train::Engine& engine) {
    Numbers result = std::move(losses);
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

Deviation compare(comm::HostGroup& ranks, const std::vector<double>& losses, train::Engine& engine,
                  const Numbers& reference) {
    const std::span<const double> expected = std::span(reference).first(losses.size()),
                                  weights = std::span(reference).subspan(losses.size());
    Deviation result;
    if (!weights.empty()) {
        const auto all = static_cast<double>(catalogue::parameter_count(engine.setup().model));
        TRIREME_ASSERT(static_cast<double>(weights.size()) == all, "the reference is another model");
        result = deviation_here(engine.parameters(), weights);
        double owned = own_elements(engine, engine.parameters());
        ranks.all_reduce({&owned, 1}, comm::ReduceOp::sum);
        if (owned != all)
            result = {0, std::numeric_limits<double>::infinity(), "not every element has an owner"};
    }
    const double largest = *std::ranges::max_element(expected);
    for (std::size_t step = 0; step < losses.size(); ++step)
        raise(result.losses, std::fabs(losses[step] - expected[step]) / largest);
    std::array most{result.losses, result.parameters};
    ranks.all_reduce(most, comm::ReduceOp::max);
    Deviation worst{most[0], most[1], ""};
    for (const std::string& where :
         ranks.all_gather(result.parameters == worst.parameters ? result.where : ""))
        if (worst.where.empty())
            worst.where = where;
    return worst;
}

} // namespace trireme::test
