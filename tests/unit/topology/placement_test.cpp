// Layer placement: the header's example, hand-worked cases, and the stated rule over many sizes.
#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>

#include "trireme/base/error.hpp"
#include "trireme/topology/placement.hpp"

namespace trireme::topology {
namespace {

// Layers of each piece in model order, checked to be consecutive.
std::vector<std::int64_t> sizes(const Placement& placement) {
    std::vector<std::int64_t> result;
    std::int64_t next = 0;
    for (int chunk = 0; chunk < placement.chunks(); ++chunk)
        for (int stage = 0; stage < placement.stages(); ++stage) {
            const Interval& owned =
                placement.layers[static_cast<std::size_t>(stage)][static_cast<std::size_t>(chunk)];
            EXPECT_EQ(owned.begin, next);
            next = owned.end;
            result.push_back(owned.size());
        }
    return result;
}

using Sizes = std::vector<std::int64_t>;

TEST(PlaceLayers, WorkedExamples) {
    EXPECT_EQ(sizes(place_layers(7, 4, 1)), (Sizes{2, 2, 2, 1}));
    EXPECT_EQ(sizes(place_layers(5, 4, 1)), (Sizes{1, 2, 1, 1}));
    EXPECT_EQ(sizes(place_layers(6, 4, 1)), (Sizes{1, 2, 2, 1}));
    EXPECT_EQ(sizes(place_layers(3, 2, 1)), (Sizes{2, 1}));
    EXPECT_EQ(sizes(place_layers(32, 4, 1)), (Sizes{8, 8, 8, 8}));
    EXPECT_EQ(sizes(place_layers(5, 1, 1)), (Sizes{5}));
    EXPECT_EQ(sizes(place_layers(6, 2, 2)), (Sizes{1, 2, 2, 1}));
}

TEST(PlaceLayers, InterleavedOrder) {
    const Placement placement = place_layers(8, 2, 2);
    EXPECT_EQ(placement.stages(), 2);
    EXPECT_EQ(placement.chunks(), 2);
    EXPECT_EQ(placement.layers[0][0], (Interval{0, 2}));
    EXPECT_EQ(placement.layers[1][0], (Interval{2, 4}));
    EXPECT_EQ(placement.layers[0][1], (Interval{4, 6}));
    EXPECT_EQ(placement.layers[1][1], (Interval{6, 8}));
}

// The rule, played literally: hand out one layer after the other in the stated order of pieces.
TEST(PlaceLayers, RemaindersGoToTheMiddleFirst) {
    for (int stages = 1; stages <= 6; ++stages)
        for (int chunks = 1; chunks <= 3; ++chunks)
            for (std::int64_t layers = stages * chunks; layers <= 40; ++layers) {
                const std::size_t pieces = static_cast<std::size_t>(stages * chunks);
                std::vector<std::size_t> order;
                for (std::size_t piece = 1; piece + 1 < pieces; ++piece)
                    order.push_back(piece);
                order.push_back(0);
                if (pieces > 1)
                    order.push_back(pieces - 1);
                Sizes expected(pieces, 0);
                std::int64_t left = layers;
                for (; left >= static_cast<std::int64_t>(pieces); left -= static_cast<std::int64_t>(pieces))
                    for (std::int64_t& size : expected)
                        ++size;
                for (std::size_t i = 0; left > 0; ++i, --left)
                    ++expected[order[i]];
                EXPECT_EQ(sizes(place_layers(layers, stages, chunks)), expected)
                    << layers << " layers, " << stages << " stages, " << chunks << " chunks";
            }
}

TEST(PlaceLayers, TooFewLayersIsAUsageError) {
    try {
        place_layers(3, 4, 1);
        FAIL() << "accepted";
    } catch (const Error& error) {
        EXPECT_EQ(error.category(), ErrorCategory::usage);
        EXPECT_NE(error.message().find("3 layers do not fill 4 pipeline stages"), std::string::npos)
            << error.message();
    }
    EXPECT_THROW(place_layers(7, 4, 2), Error);
}

using Split = PipelineSplit;

// Megatron-LM's rules, worked out by hand.
TEST(Placement, SplitsAsAsked) {
    EXPECT_EQ(sizes(place_layers(30, 4, 1, {.embedding = TakesPlace::yes, .head = TakesPlace::yes})),
              (Sizes{7, 8, 8, 7}));
    EXPECT_EQ(sizes(place_layers(31, 4, 1, {.embedding = TakesPlace::yes})), (Sizes{7, 8, 8, 8}));
    EXPECT_EQ(sizes(place_layers(31, 4, 1, {.head = TakesPlace::yes})), (Sizes{8, 8, 8, 7}));
    EXPECT_EQ(sizes(place_layers(6, 8, 1, {.embedding = TakesPlace::yes, .head = TakesPlace::yes})),
              (Sizes{0, 1, 1, 1, 1, 1, 1, 0}));
    // In model order: chunk 0 of each stage, then chunk 1 of each.
    EXPECT_EQ(sizes(place_layers(30, 4, 2, {.embedding = TakesPlace::yes, .head = TakesPlace::yes})),
              (Sizes{3, 4, 4, 4, 4, 4, 4, 3}));
    EXPECT_EQ(sizes(place_layers(61, 8, 1, {.last_stage = 5})), (Sizes{8, 8, 8, 8, 8, 8, 8, 5}));
    EXPECT_EQ(sizes(place_layers(10, 4, 1, {.first_stage = 1, .last_stage = 3})), (Sizes{1, 3, 3, 3}));
    EXPECT_EQ(sizes(place_layers(5, 2, 1, {.first_stage = 2, .last_stage = 3})), (Sizes{2, 3}));
    EXPECT_EQ(sizes(place_layers(10, 2, 2, {.first_stage = 4})), (Sizes{2, 3, 2, 3}));
    EXPECT_EQ(sizes(place_layers(6, 2, 2, {.pieces = {0, 3, 3, 0}})), (Sizes{0, 3, 3, 0}));
    EXPECT_EQ(sizes(place_layers(5, 1, 1, {.embedding = TakesPlace::yes})), (Sizes{5}));
}

TEST(Placement, WhatIsWrongWithASplit) {
    const auto what = [](std::int64_t layers, int stages, int chunks, const Split& split) {
        const auto problem = problem_of(layers, stages, chunks, split);
        return problem ? problem->what : "";
    };
    EXPECT_EQ(what(4, 1, 1, {.first_stage = 2}),
              "one pipeline stage has neither a first nor a last beside it");
    EXPECT_EQ(what(6, 2, 1, {.first_stage = 2, .last_stage = 3}),
              "2 layers on the first stage and 3 layers on the last stage do not make 6 layers, and no stage "
              "stands "
              "between");
    EXPECT_EQ(what(6, 4, 1, {.first_stage = 5}),
              "after 5 layers on the first stage there are 1 of 6 layers left for 3 other stages");
    EXPECT_EQ(
        what(6, 4, 1, {.last_stage = std::int64_t{1} << 62}),
        "after 4611686018427387904 layers on the last stage there are 0 of 6 layers left for 3 other stages");
    EXPECT_EQ(
        what(8, 4, 1, {.first_stage = 1}),
        "after 1 layer on the first stage there are 7 layers left, which 3 other stages cannot share evenly");
    EXPECT_EQ(what(8, 2, 2, {.first_stage = 3}),
              "the 3 layers of a stage do not make 2 model chunks of equal size");
    EXPECT_EQ(what(8, 4, 1, {.embedding = TakesPlace::yes}),
              "8 layers and what counts as one (9 in all) cannot be shared evenly by 4 pipeline stages");
    EXPECT_EQ(what(8, 4, 1, {.pieces = {3, 3, 2}}), "a layout of 3 pieces is not one of 4 pipeline stages");
    EXPECT_EQ(what(8, 4, 1, {.pieces = {3, 3, 1, 0}}), "the layout places 7 layers, the model has 8");
    EXPECT_EQ(what(8, 4, 1, {.pieces = {3, 0, 4, 1}}), "piece 1 of the layout has nothing to compute");
    EXPECT_EQ(what(8, 4, 1, {.first_stage = 2, .head = TakesPlace::yes}),
              "embedding or head count as a layer in an even split only");
    EXPECT_EQ(what(8, 4, 1, {}), "");
    EXPECT_THROW(place_layers(8, 4, 1, {.first_stage = 1}), Error);
}

// The costs of the stages, highest first.
double highest_stage(const Sizes& pieces, int stages, const LayerCosts& costs) {
    std::vector<double> sums(static_cast<std::size_t>(stages));
    for (std::size_t i = 0; i < pieces.size(); ++i)
        sums[i % sums.size()] += costs.piece(pieces[i], i == 0, i + 1 == pieces.size());
    return *std::ranges::max_element(sums);
}

// No way of sharing out the layers has a cheaper highest stage: all of them are tried.
TEST(Placement, BalanceIsTheBest) {
    const std::vector<LayerCosts> all{
        {.layer = 1},
        {.layer = 1, .embedding = 0.01, .head = 0.6},
        {.layer = 1, .head = 2.5},
        {.layer = 1, .embedding = 0.3, .head = 7},
        {.layer = 3, .embedding = 1, .head = 4, .dear_layers = 2, .dearer = 1},
    };
    int looked_at = 0;
    for (const LayerCosts& costs : all)
        for (int stages = 1; stages <= 4; ++stages)
            for (int chunks = 1; chunks <= (stages == 2 && costs.dear_layers == 0 ? 2 : 1); ++chunks)
                for (std::int64_t layers = stages * chunks; layers <= 9; ++layers) {
                    const Sizes found = balance_layers(layers, stages, chunks, costs);
                    EXPECT_EQ(std::accumulate(found.begin(), found.end(), std::int64_t{0}), layers);
                    EXPECT_NO_THROW(place_layers(layers, stages, chunks, {.pieces = found}));
                    double best = 1e9;
                    Sizes tried(found.size());
                    const auto try_all = [&](auto&& self, std::size_t piece, std::int64_t left) -> void {
                        const bool is_end = piece == 0 || piece + 1 == tried.size();
                        if (piece + 1 == tried.size()) {
                            tried[piece] = left;
                            best = std::min(best, highest_stage(tried, stages, costs));
                            return;
                        }
                        for (std::int64_t size = is_end ? 0 : 1; size <= left; ++size) {
                            tried[piece] = size;
                            self(self, piece + 1, left - size);
                        }
                    };
                    try_all(try_all, 0, layers);
                    ++looked_at;
                    EXPECT_LE(highest_stage(found, stages, costs), best * (1 + 1e-12))
                        << layers << " layers, " << stages << " stages, " << chunks << " chunks, head "
                        << costs.head;
                }
    EXPECT_GT(looked_at, 100);
}

TEST(Placement, BalanceOfEqualStages) {
    EXPECT_EQ(balance_layers(7, 4, 1, {}), (Sizes{1, 2, 2, 2})) << "the later stage gets the layer";
    EXPECT_EQ(balance_layers(8, 2, 2, {}), (Sizes{2, 2, 2, 2}));
    EXPECT_EQ(balance_layers(14, 2, 2, {.layer = 1, .head = 2}), (Sizes{4, 4, 4, 2}));
    EXPECT_EQ(balance_layers(2, 4, 1, {.layer = 1, .head = 9}), (Sizes{0, 1, 1, 0}));
    EXPECT_THROW(balance_layers(1, 4, 1, {}), Error);
}

TEST(Placement, ReadsMegatronsLayouts) {
    EXPECT_EQ(read_layout("Ettt|tt|tt|tL").pieces, (Sizes{3, 2, 2, 1}));
    EXPECT_EQ(read_layout("Et*3|(tt|)*2,t|L").pieces, (Sizes{3, 2, 2, 1, 0}));
    EXPECT_EQ(read_layout("E|(t|)*6L").pieces, (Sizes{0, 1, 1, 1, 1, 1, 1, 0}));
    EXPECT_EQ(read_layout("E(t(t|)*2)*2L").pieces, (Sizes{2, 1, 2, 1, 0}));
    EXPECT_EQ(read_layout("EL").pieces, (Sizes{0}));
    EXPECT_EQ(read_layout("Et*3|(tt|)*29,m|L").wrong, "there are no layers for multi-token prediction (m)");
    EXPECT_EQ(read_layout("Ett|xt|L").wrong, "'Ett|xt|L' cannot be read from 'xt|L' on");
    // Neither a repetition of nothing nor parentheses without end keep anybody busy.
    EXPECT_NE(read_layout("()*99999999999999EttL").wrong, "");
    EXPECT_NE(read_layout("Et*99999999999999L").wrong, "");
    EXPECT_NE(read_layout(std::string(100000, '(')).wrong, "");
    EXPECT_EQ(read_layout("E((t*2|)*2)tL").wrong, "");
    EXPECT_EQ(read_layout("tt|L").wrong, "'tt|L' does not begin with the one embedding (E)");
    EXPECT_EQ(read_layout("Ett|LL").wrong, "'Ett|LL' does not end with the one head with its loss (L)");
    for (const char* wrong : {"", "(", "E(t", "Et)|L", "Et*|L", "Et*0|L", "Et*99999999999999999999|L", "*3",
                              "()", "E(t*60000)*60000|L", "E**2", "E(t)*-1|L"})
        EXPECT_NE(read_layout(wrong).wrong, "") << wrong;
}

} // namespace
} // namespace trireme::topology
