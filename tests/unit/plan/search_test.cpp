// The search against trying everything.
#include <algorithm>
#include <gtest/gtest.h>

#include "trireme/plan/declared_rank.hpp"
#include "trireme/plan/report.hpp"
#include "trireme/plan/search.hpp"
#include "unit/plan/support.hpp"

namespace trireme::plan {
namespace {

struct Tried {
    std::int64_t bytes;
    double seconds;
};

Tried look_at(const RunSetup& setup, const Machine& machine) {
    const std::vector<StageMemory> stages = declare_stages(setup, {backend::Device::cuda, 1});
    return {stages[fullest(stages)].total, predict(setup, machine).seconds};
}

// Every layout of 8 GPUs that the rules allow, by plain loops.
std::vector<Tried> try_everything(const RunSetup& base, const Machine& machine) {
    using Mode = model::Recompute::Mode;
    std::vector<Tried> tried;
    for (const int tensor : {1, 2, 4, 8})
        for (const int pipeline : {1, 2, 4})
            for (const std::int64_t micro_batch : {1, 2, 4, 8})
                for (const int chunks : {1, 2})
                    for (const Mode mode : {Mode::none, Mode::selective, Mode::uniform}) {
                        RunSetup setup = base;
                        if (8 % (tensor * pipeline) != 0 || (pipeline == 1 && chunks > 1) ||
                            setup.model.layers % (pipeline * chunks) != 0)
                            continue;
                        setup.grid = {tensor, 8 / tensor / pipeline, pipeline};
                        if (setup.global_batch % (micro_batch * setup.grid.data) != 0)
                            continue;
                        setup.micro_batch = micro_batch;
                        setup.chunks = chunks;
                        setup.schedule = chunks > 1 ? topology::ScheduleKind::interleaved
                                                    : topology::ScheduleKind::one_f_one_b;
                        setup.recompute = {mode, mode == Mode::uniform ? 1 : 0};
                        if (tensor > 1)
                            setup.sequence_parallel = model::SequenceParallel::yes;
                        if (setup.grid.data > 1)
                            setup.optimizer.sharding = optimizer::Sharding::data_ranks;
                        tried.push_back(look_at(setup, machine));
                        if (pipeline == 1 || chunks > 1 || mode != Mode::none)
                            continue;
                        setup.schedule = topology::ScheduleKind::zb_h1;
                        tried.push_back(look_at(setup, machine));
                    }
    return tried;
}

RunSetup base() {
    RunSetup setup = small_setup(4);
    setup.model.vocabulary = 32768;
    setup.global_batch = 8;
    return setup;
}

TEST(Search, FindsWhatTryingEverythingFinds) {
    Machine machine = find_machine("h100");
    machine.allowance_gib = 1;
    const std::vector<Tried> tried = try_everything(base(), machine);
    for (const double memory_gib : {80.0, 1.3}) { // all fit, some fit
        machine.memory_gib = memory_gib;
        std::vector<double> expected;
        for (const Tried& one : tried)
            if (one.bytes <= room_bytes(machine))
                expected.push_back(one.seconds);
        std::ranges::sort(expected);
        ASSERT_GT(expected.size(), 10U);
        ASSERT_EQ(memory_gib < 2, expected.size() < tried.size()) << expected.size();
        const SearchResult found = search(base(), {8, 8, 10}, machine, {});
        EXPECT_EQ(found.layouts, static_cast<std::int64_t>(tried.size()));
        ASSERT_EQ(found.best.size(), 10U);
        for (std::size_t i = 0; i < found.best.size(); ++i)
            EXPECT_EQ(found.best[i].prediction.seconds, expected[i]) << memory_gib << ", place " << i;
        const std::string text = describe_search(found, {8, 8, 10}, machine);
        EXPECT_NE(text.find("% slower"), std::string::npos) << text;
    }
}

TEST(Search, KeepsTensorRanksInsideANode) {
    for (const Candidate& candidate : search(base(), {8, 2, 10}, find_machine("h100"), {}).best)
        EXPECT_LE(candidate.setup.grid.tensor, 2);
}

TEST(Search, SaysWhenNothingFits) {
    Machine machine = find_machine("h100");
    machine.memory_gib = 1.501;
    const SearchResult found = search(base(), {8, 8, 10}, machine, {});
    EXPECT_TRUE(found.best.empty());
    EXPECT_THROW(describe_search(found, {8, 8, 10}, machine), Error);
    RunSetup odd = base();
    odd.global_batch = 1;
    odd.model.heads = odd.model.groups = 7;
    odd.model.layers = 1;
    EXPECT_EQ(search(odd, {8, 8, 10}, machine, {}).layouts,
              0); // TP 1, PP 1 and DP 8 do not divide a batch of 1
}

} // namespace
} // namespace trireme::plan
