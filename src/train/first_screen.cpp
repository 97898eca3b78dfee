// Composes the first screen from the engine, the plan and the dataset.
#include "first_screen.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "trireme/base/build_info.hpp"
#include "trireme/base/sizes.hpp"
#include "trireme/plan/screen.hpp"
#include "trireme/plan/tensor_span.hpp"

namespace trireme::train {
namespace {

using plan::fixed;

std::string row(const char* title, const std::string& text) {
    return plan::screen_row(title, text);
}

// "ranks 0-3, 8" from sorted ranks.
std::string rank_ranges(const std::vector<int>& ranks) {
    std::string text = ranks.size() == 1 ? "rank " : "ranks ";
    for (std::size_t i = 0; i < ranks.size();) {
        std::size_t end = i + 1;
        while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1)
            ++end;
        text += concat(i == 0 ? "" : ", ", ranks[i]);
        if (end - i > 1)
            text += concat("-", ranks[end - 1]);
        i = end;
    }
    return text;
}

// Parameters of the stages, each logical one once a stage, and of the fullest rank with padding.
std::string parameter_lines(Engine& engine) {
    const EngineSetup& setup = engine.setup();
    std::array<double, 2> most{};
    for (const model::HeldParameter& held : engine.parameters().held()) {
        most[0] += static_cast<double>(held.parameter.elements());
        most[1] += static_cast<double>(held.shard.local.elements());
    }
    engine.groups().world->all_reduce(most, comm::ReduceOp::max);
    return plan::parameters_row(setup, most[0], most[1]);
}

// "" if every tensor group lies inside a node.
std::string spanning_line(const EngineSetup& setup, const std::vector<std::string>& hosts,
                          const backend::Backend& backend) {
    const plan::TensorSpan span = plan::tensor_span(setup.grid, hosts);
    if (span.groups == 0)
        return "";
    std::string cost;
    if (setup.type != DType::f64) { // the cost model knows GPUs, which train in fp32 at most
        const std::optional<plan::Machine> known = plan::machine_for(backend.description());
        const plan::Machine machine = known ? *known : plan::find_machine("h100");
        const plan::SpanCost seconds = plan::span_cost(setup, span, machine);
        cost =
            concat("; on ", known ? "" : "GPUs like ", machine.name, " a step is foreseen to take ",
                   fixed(seconds.spanning / seconds.inside, 2), " times as long as with TP inside a node (",
                   fixed(seconds.spanning * 1e3, 1), " ms, ", fixed(seconds.inside * 1e3, 1), " ms)");
    }
    return row("warning",
               concat(span.groups, span.groups == 1 ? " tensor group spans" : " tensor groups span",
                      " nodes (that of rank ", span.first_rank,
                      " for one): each layer's sums cross the network", cost, "; try: ",
                      "--tensor-model-parallel-size of at most the ranks of a node, and ranks by node ",
                      "(--distribution=block, mpirun --map-by slot)"));
}

std::string layout_lines(const Engine& engine, comm::Runtime& runtime, const backend::Backend& backend) {
    const topology::Grid& grid = engine.groups().grid;
    const std::size_t nodes = std::set<std::string>(runtime.hosts().begin(), runtime.hosts().end()).size();
    std::string text = row("layout", concat(grid.ranks(), grid.ranks() == 1 ? " rank" : " ranks", " on ",
                                            nodes, nodes == 1 ? " node: " : " nodes: ",
                                            plan::layout_words(engine.setup(), engine.schedule())));
    // By host: which stages its ranks belong to.
    std::map<std::string, std::map<int, std::vector<int>>> where;
    for (int rank = 0; rank < grid.ranks(); ++rank)
        where[runtime.hosts()[static_cast<std::size_t>(rank)]][grid.coordinates(rank).pipeline].push_back(
            rank);
    for (const auto& [host, stages] : where) {
        std::string line = host + ":";
        for (const auto& [stage, ranks] : stages)
            line += concat(line.back() == ':' ? " " : ", ", "stage ", stage, " = ", rank_ranges(ranks));
        text += row("", line);
    }
    if (const std::string transport = engine.groups().data->transport(); !transport.empty())
        text += row("", concat("between data ranks: ", transport));
    return text + row("", concat("each rank: ", backend.description())) +
           spanning_line(engine.setup(), runtime.hosts(), backend);
}

std::string memory_line(const Engine& engine) {
    std::array<std::int64_t, memory::kCategories> mine{};
    for (int i = 0; i < memory::kCategories; ++i)
        mine[static_cast<std::size_t>(i)] = engine.plan().bytes(static_cast<memory::Category>(i));
    const std::string packed(reinterpret_cast<const char*>(mine.data()), sizeof mine);
    const std::vector<std::string> all = engine.groups().world->all_gather(packed);
    std::array<std::int64_t, memory::kCategories> worst{};
    std::int64_t worst_bytes = -1;
    int worst_rank = 0;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        std::array<std::int64_t, memory::kCategories> its{};
        std::memcpy(its.data(), all[rank].data(), sizeof its);
        std::int64_t sum = 0;
        for (const std::int64_t bytes : its)
            sum += bytes;
        if (sum > worst_bytes) {
            worst_bytes = sum;
            worst = its;
            worst_rank = static_cast<int>(rank);
        }
    }
    const int stage = engine.groups().grid.coordinates(worst_rank).pipeline;
    return row("memory", concat("per rank, worst stage ", stage, ": ", show_bytes(worst_bytes), " (",
                                plan::memory_words(worst), ")"));
}

} // namespace

std::string version_line() {
    const BuildInfo& build = build_info();
    return concat("trireme ", build.version, " (", build.commit, ", ", build.compiler, ")\n");
}

std::string describe_engine(Engine& engine, comm::Runtime& runtime, const backend::Backend& backend) {
    return layout_lines(engine, runtime, backend) + plan::model_row(engine.setup(), engine.placement()) +
           parameter_lines(engine) + memory_line(engine) + describe_documents(engine.setup());
}

std::string describe_documents(const EngineSetup& setup) {
    const model::DocumentSetup& documents = setup.documents;
    std::string words;
    const auto add = [&](bool wanted, const char* text) {
        if (wanted)
            words += concat(words.empty() ? "" : ", ", text);
    };
    add(documents.masks_attention, "attention within documents");
    add(documents.restarts_positions, "positions restart");
    add(documents.masks_loss, "no loss behind their ends");
    return words.empty() ? ""
                         : row("documents", concat(words, "; a document ends with token ", documents.end));
}

std::string no_document_ends(const EngineSetup& setup, std::int64_t samples) {
    return concat("no document ends in ", samples, " samples: token ", setup.documents.end,
                  " is not among their ", samples * setup.model.sequence,
                  " tokens; data made without --append-eod never have it, and --reset-attention-mask, "
                  "--reset-position-ids and --eod-mask-loss then do nothing");
}

namespace {

// "0.700001 of wikipedia: 3.1 B tokens, 2.0 M documents = 1.5 M samples an epoch; 100000 samples = 0.07
// epochs"
std::string member_line(const data::MemberInfo& member, double share, std::int64_t samples_drawn) {
    std::string text = member.prefix;
    if (member.units != data::Blend::kUnits)
        text = concat(fixed(share, 6), " of ", text);
    text += concat(": ", show_count(static_cast<double>(member.tokens)), " tokens, ",
                   show_count(static_cast<double>(member.documents)),
                   " documents = ", show_count(static_cast<double>(member.samples_per_epoch)),
                   " samples an epoch");
    if (samples_drawn > 0) {
        const double drawn = share * static_cast<double>(samples_drawn);
        text += concat("; ", show_count(drawn),
                       " samples drawn = ", fixed(drawn / static_cast<double>(member.samples_per_epoch), 2),
                       " epochs");
    }
    return text;
}

// What the run reads of a part: training, all evaluations, or the one at the end.
std::int64_t samples_drawn(const options::Resolved& options, data::Split split) {
    const std::int64_t interval = options.evaluation.eval_interval;
    const std::int64_t evaluation = options.evaluation.eval_iters * options.batch.global_batch_size;
    switch (split) {
    case data::Split::train:
        return options.training.train_samples;
    case data::Split::valid:
        return interval > 0 ? std::max<std::int64_t>(1, options.training.train_iters / interval) * evaluation
                            : 0;
    case data::Split::test:
        return interval > 0 ? evaluation : 0;
    }
    return 0;
}

} // namespace

std::vector<data::Split> wanted_parts(const options::Resolved& options, const data::Dataset& dataset) {
    std::vector<data::Split> parts = {data::Split::train};
    for (const data::Split split : {data::Split::valid, data::Split::test})
        if (samples_drawn(options, split) > 0 && dataset.has(split))
            parts.push_back(split);
    return parts;
}

// "train: 100 iterations x 16 samples", or "train: 100 iterations, 960 samples in batches of 4 to 16".
std::string training_steps(const options::Resolved& options) {
    const topology::BatchSchedule& batches = options.batch.schedule;
    const std::string count = concat("train: ", options.training.train_iters, " iterations");
    if (batches.is_constant())
        return concat(count, " x ", options.batch.global_batch_size, " samples");
    return concat(count, ", ", options.training.train_samples, " samples in batches of ",
                  batches.sizes().front(), " to ", batches.sizes().back());
}

std::string describe_data(const options::Resolved& options, const data::Dataset& dataset) {
    std::string text;
    for (const data::Split split : wanted_parts(options, dataset)) {
        const char* title = text.empty() ? "data" : "";
        const std::int64_t drawn = samples_drawn(options, split);
        const data::SplitInfo info = dataset.info(split);
        std::string steps;
        if (split == data::Split::train)
            steps = training_steps(options);
        else
            steps = concat(data::name_of(split), ": ", options.evaluation.eval_iters, " x ",
                           options.batch.global_batch_size, " samples an evaluation");
        const auto share = [&](const data::MemberInfo& member) {
            return static_cast<double>(member.units) / static_cast<double>(data::Blend::kUnits);
        };
        if (info.members.size() == 1) {
            text += row(title, concat(steps, " of ", member_line(info.members[0], 1, drawn)));
            continue;
        }
        text += row(title, concat(steps, ", a blend of ", info.members.size(), ", ",
                                  show_count(static_cast<double>(info.tokens)), " tokens"));
        for (const data::MemberInfo& member : info.members)
            text += row("", "  " + member_line(member, share(member), drawn));
    }
    if (samples_drawn(options, data::Split::valid) > 0 && !dataset.has(data::Split::valid))
        text += row(
            "", "there is no validation part (--split, --valid-data-path): --eval-interval has no effect");
    return text;
}

} // namespace trireme::train
