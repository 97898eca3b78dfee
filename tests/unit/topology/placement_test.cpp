// Layer placement: the header's example, hand-worked cases, and the stated rule over many sizes.
#include <gtest/gtest.h>

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

} // namespace
} // namespace trireme::topology
