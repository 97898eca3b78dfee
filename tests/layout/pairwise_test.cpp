// ranks: 8
// Whatever options are combined, one model is trained. The cases hold each pair of layout and model options
// that the options layer lets pass (support/option_space.hpp), and as many triples as the number of cases
// allows. Each goes the way of a run, from the command line to the engine, and its losses of 20 steps and its
// final parameters equal those of one rank without any option of layout, to 1e-10 of the largest value of
// their kind (fp64: only the order of sums differs).
//
// Cases run side by side on disjoint parts of the eight ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <numeric>
#include <set>
#include <span>

#include "support/mpi_test.hpp"
#include "support/omitting.hpp"
#include "support/one_rank.hpp"
#include "support/option_space.hpp"
#include "support/refused_pairs.hpp"
#include "support/test_level.hpp"

namespace trireme {
namespace {

using test::Case;
using test::Deviation;
using test::Numbers;
using test::quick;
using test::runtime;
using test::TrainingRun;

constexpr double kBound = 1e-10;

// Of each model one, trained on one of the ranks.
using References = std::map<std::string, Numbers>;

References train_references(const std::vector<Case>& cases) {
    References result;
    for (const Case& of : cases)
        result[test::model_command_line(of)];
    std::vector<std::string> lines;
    for (const auto& [line, nothing] : result)
        lines.push_back(line);
    const auto ranks = static_cast<std::size_t>(runtime().ranks()),
               rank = static_cast<std::size_t>(runtime().rank());
    for (std::size_t first = 0; first < lines.size(); first += ranks) {
        std::string mine;
        if (first + rank < lines.size()) {
            const Numbers numbers = test::train_alone(lines[first + rank]);
            mine.assign(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double));
        }
        const std::vector<std::string> all = runtime().world().all_gather(mine);
        for (std::size_t i = 0; i < ranks && first + i < lines.size(); ++i) {
            Numbers& numbers = result[lines[first + i]];
            numbers.resize(all[i].size() / sizeof(double));
            std::memcpy(numbers.data(), all[i].data(), all[i].size());
        }
    }
    return result;
}

// What is left out of the communication of a case.
struct Omission {
    std::unique_ptr<comm::Communicator> comm::ProcessGroups::*group;
    int omitted;   // -1: nothing
    int calls = 0; // collectives that the group saw in the last step
};

// Trains the case on these ranks and compares. Collective over them.
Deviation try_case(const Case& of, comm::HostGroup& ranks, const Numbers& reference,
                   Omission* omission = nullptr) {
    const TrainingRun run(test::command_line(of), ranks.size());
    const auto backend = backend::make_cpu_backend(1);
    comm::ProcessGroups groups(ranks, run.setup.grid, *backend);
    test::Omitting* omitting = nullptr;
    if (omission != nullptr) {
        auto replacement =
            std::make_unique<test::Omitting>(std::move(groups.*(omission->group)), omission->omitted);
        omitting = replacement.get();
        groups.*(omission->group) = std::move(replacement);
    }
    train::Engine engine(run.setup, std::move(groups), *backend);
    const Numbers losses = run.losses(engine, omitting);
    if (omitting != nullptr)
        omission->calls = omitting->calls();
    EXPECT_EQ(backend->allocated_bytes(), engine.plan().bytes());
    return test::compare(ranks, losses, engine, reference);
}

// Where a case runs: part `number` of the world cut into parts of `size` ranks.
struct Place {
    std::size_t which; // case
    int size, number;
};

// A few cases at a time, the largest first, each where ranks are free soonest: those on all ranks bring the
// parts together again, so that none waits for long (the watchdog's limit) for one that has more to do.
std::vector<Place> places(const std::vector<Case>& cases) {
    std::vector<std::size_t> order(cases.size());
    std::iota(order.begin(), order.end(), 0);
    std::vector<int> sizes;
    for (const Case& of : cases)
        sizes.push_back(test::ranks_of(of));
    constexpr std::size_t kAtATime = 16;
    std::ranges::stable_sort(order, std::less{},
                             [&](std::size_t which) { return std::pair(which / kAtATime, -sizes[which]); });
    std::vector<double> free_at(static_cast<std::size_t>(runtime().ranks()));
    std::vector<Place> result;
    for (const std::size_t which : order) {
        const int size = sizes[which];
        const auto start_of = [&](int number) {
            return *std::max_element(free_at.begin() + number * size, free_at.begin() + (number + 1) * size);
        };
        int best = 0;
        for (int number = 1; (number + 1) * size <= runtime().ranks(); ++number)
            if (start_of(number) < start_of(best))
                best = number;
        std::fill_n(free_at.begin() + best * size, size, start_of(best) + 1.0 / size);
        result.push_back({which, size, best});
    }
    return result;
}

// Made once on one rank, known to all.
const test::Cover& shared_cover() {
    static const test::Cover shared = [] {
        test::Cover cover;
        std::string bytes;
        if (runtime().rank() == 0) {
            cover = test::make_cover(test::option_space(runtime().ranks()), quick() ? 60 : 200);
            for (const Case& of : cover.cases)
                for (const int value : of)
                    bytes += static_cast<char>(value);
        }
        bytes = runtime().world().broadcast(bytes, 0);
        cover.cases.clear();
        const auto factors = static_cast<std::ptrdiff_t>(test::factors().size());
        for (auto at = bytes.cbegin(); at != bytes.cend(); at += factors)
            cover.cases.emplace_back(at, at + factors);
        return cover;
    }();
    return shared;
}

std::set<std::string> texts(const std::vector<test::Pair>& pairs) {
    std::set<std::string> result;
    for (const test::Pair& pair : pairs)
        result.insert(test::describe(pair));
    return result;
}

// The pairs left out are those that the rules of the options leave out, and those too large for this test.
void expect_refused(const test::Cover& cover) {
    const std::set<std::string> found = texts(cover.refused), refused = texts(test::pairs_refused()),
                                large = texts(test::pairs_of_more_ranks(runtime().ranks()));
    for (const std::string& pair : found)
        EXPECT_TRUE(refused.contains(pair) || large.contains(pair))
            << pair << ": no allowed case has it, though no rule is known to refuse it";
    for (const std::set<std::string>* const expected : {&refused, &large})
        for (const std::string& pair : *expected)
            EXPECT_TRUE(found.contains(pair)) << pair << ": is allowed, against the rule";
}

TEST(Pairwise, EveryPairOfOptionsTrainsTheSameModel) {
    const test::Cover& cover = shared_cover();
    const std::vector<Case>& cases = cover.cases;
    const References references = train_references(cases);
    std::map<int, std::unique_ptr<comm::HostGroup>> parts;
    for (const Place& place : places(cases))
        if (!parts.contains(place.size))
            parts[place.size] = runtime().part(runtime().rank() / place.size);

    Numbers worst(2), ran(cases.size());
    for (const Place& place : places(cases)) {
        if (runtime().rank() / place.size != place.number)
            continue;
        const Case& of = cases[place.which];
        try {
            const Numbers& reference = references.at(test::model_command_line(of));
            const Deviation deviation = try_case(of, *parts[place.size], reference);
            EXPECT_TRUE(deviation.within(kBound))
                << test::command_line(of) << "\non " << place.size << " ranks: losses differ by "
                << deviation.losses << ", parameters by " << deviation.parameters << " (" << deviation.where
                << ") of the largest";
            test::raise(worst[0], deviation.losses);
            test::raise(worst[1], deviation.parameters);
            ran[place.which] = 1;
        } catch (const Error& error) {
            ADD_FAILURE() << test::command_line(of) << "\n" << error.message();
        }
    }
    runtime().world().all_reduce(worst, comm::ReduceOp::max);
    runtime().world().all_reduce(ran, comm::ReduceOp::max);
    std::vector<Case> done;
    for (std::size_t i = 0; i < cases.size(); ++i)
        if (ran[i] > 0)
            done.push_back(cases[i]);
    if (runtime().rank() != 0)
        return;
    expect_refused(cover);
    const std::size_t met = test::pairs_met(test::option_space(runtime().ranks()), done),
                      large = test::pairs_of_more_ranks(runtime().ranks()).size();
    std::cout << "summary: pairwise: " << met << " pairs met of " << cover.allowed() << " allowed ("
              << cover.refused.size() - large << " refused by the options, " << large << " need more than "
              << runtime().ranks() << " ranks), " << done.size() << " cases, " << references.size()
              << " models; of the largest value losses differ by " << worst[0] << ", parameters by "
              << worst[1] << "\n";
    for (const auto& [line, numbers] : references) { // they move, so that equality means something
        const auto [least, most] = std::ranges::minmax(std::span(numbers.data(), 20));
        EXPECT_GT(most - least, 0.05) << line;
    }
    EXPECT_EQ(met, cover.allowed());
    // A value that goes with nothing, a misspelt option say, is a fault of the list of factors.
    for (std::size_t factor = 0; factor < test::factors().size(); ++factor)
        for (std::size_t value = 0; value < test::factors()[factor].values.size(); ++value)
            EXPECT_TRUE(std::ranges::any_of(done, [&](const Case& of) {
                return of[factor] == static_cast<int>(value);
            })) << test::factors()[factor].values[value];
    EXPECT_GE(done.size(), quick() ? 60u : 200u);
}

// What the comparison is worth: with any one collective or transfer left out of each step, it fails.
TEST(Pairwise, ACollectiveLeftOutIsSeen) {
    std::vector<test::Choice> choices;
    for (std::size_t factor = 0; factor < test::factors().size(); ++factor) {
        const std::string& name = test::factors()[factor].name;
        for (const char* const wanted : {"tensor", "pipeline", "data", "sequence", "ZeRO-1"})
            if (name == wanted)
                choices.push_back({static_cast<int>(factor), 1});
        if (name == "groups") // one, which both tensor ranks hold
            choices.push_back({static_cast<int>(factor), 2});
    }
    const Case of = test::allowed_case_with(test::option_space(runtime().ranks()), choices);
    ASSERT_FALSE(of.empty());
    const Numbers reference = train_references({of}).begin()->second;
    const auto seen = [&](Omission& omission) {
        const Deviation deviation = try_case(of, runtime().world(), reference, &omission);
        double calls = omission.calls;
        runtime().world().all_reduce({&calls, 1}, comm::ReduceOp::max);
        omission.calls = static_cast<int>(calls);
        return !deviation.within(kBound);
    };
    using comm::ProcessGroups;
    const auto expect_seen = [&](auto group, int omitted, const char* name) {
        Omission omission{group, omitted};
        EXPECT_TRUE(seen(omission)) << name << " group, collective or channel " << omitted;
    };
    for (const auto& [group, name] : {std::pair(&ProcessGroups::tensor, "tensor"),
                                      {&ProcessGroups::data, "data"},
                                      {&ProcessGroups::embedding, "embedding"},
                                      {&ProcessGroups::model, "model"},
                                      {&ProcessGroups::key_value, "key/value"}}) {
        Omission nothing{group, -1};
        EXPECT_FALSE(seen(nothing)) << name;
        ASSERT_GT(nothing.calls, 0) << name;
        const int first = quick() ? nothing.calls - 1 : 0;
        for (const int omitted : std::set{first, (first + nothing.calls) / 2, nothing.calls - 1})
            expect_seen(group, omitted, name);
    }
    for (const int channel : {0, 1}) // forward and backward
        expect_seen(&ProcessGroups::pipeline, channel, "pipeline");
}

// A reference is one rank on the shortest path, and the model of its case to the last option.
TEST(Pairwise, ReferencesHaveNoOptionOfLayout) {
    const train::EngineSetup plain;
    for (const Case& of : shared_cover().cases) {
        const TrainingRun alone(test::model_command_line(of), 1),
            run(test::command_line(of), test::ranks_of(of));
        EXPECT_EQ(to_config(alone.options.values, alone.options.sources, options::Kept::model),
                  to_config(run.options.values, run.options.sources, options::Kept::model));
        EXPECT_EQ(alone.rates, run.rates);
        EXPECT_EQ(alone.setup.grid, topology::Grid{});
        EXPECT_EQ(alone.setup.chunks, 1);
        EXPECT_EQ(alone.setup.schedule, plain.schedule);
        EXPECT_EQ(alone.setup.recompute.mode, plain.recompute.mode);
        EXPECT_EQ(alone.setup.sequence_parallel, plain.sequence_parallel);
        EXPECT_EQ(alone.setup.optimizer.sharding, plain.optimizer.sharding);
        EXPECT_EQ(alone.setup.optimizer.overlap, plain.optimizer.overlap);
        EXPECT_EQ(alone.setup.micro_batch, 1);
        EXPECT_EQ(alone.setup.global_batch, run.setup.global_batch);
    }
}

} // namespace
} // namespace trireme
