// The process grid against the table of its header and against its own definition on every rank of many
// grids.
#include <gtest/gtest.h>

#include <algorithm>

#include "trireme/base/error.hpp"
#include "trireme/topology/grid.hpp"

namespace trireme::topology {
namespace {

using Ranks = std::vector<int>;

TEST(Grid, HeaderExample) {
    const Grid grid{.tensor = 2, .data = 2, .pipeline = 2};
    EXPECT_EQ(grid.ranks(), 8);
    for (int rank = 0; rank < 8; ++rank) {
        const int tensor[] = {0, 1, 0, 1, 0, 1, 0, 1}, data[] = {0, 0, 1, 1, 0, 0, 1, 1},
                  pipeline[] = {0, 0, 0, 0, 1, 1, 1, 1};
        EXPECT_EQ(grid.coordinates(rank), (Coordinates{tensor[rank], data[rank], pipeline[rank]}));
    }
    EXPECT_EQ(grid.tensor_group(5), (Ranks{4, 5}));
    EXPECT_EQ(grid.data_group(5), (Ranks{5, 7}));
    EXPECT_EQ(grid.pipeline_group(5), (Ranks{1, 5}));
    EXPECT_EQ(grid.stage_group(5), (Ranks{4, 5, 6, 7}));
    EXPECT_EQ(grid.embedding_group(5), (Ranks{1, 5}));
    EXPECT_EQ(grid.model_group(5), (Ranks{0, 1, 4, 5}));
    EXPECT_EQ(grid.text(), "TP 2 x PP 2 x DP 2");
}

TEST(Grid, EmbeddingGroupIsFirstAndLastStage) {
    const Grid four_stages{.tensor = 2, .data = 3, .pipeline = 4};
    EXPECT_EQ(four_stages.embedding_group(9), (Ranks{3, 21}));
    EXPECT_EQ(four_stages.embedding_group(21), (Ranks{3, 21}));
    const Grid one_stage{.tensor = 2, .data = 2, .pipeline = 1};
    EXPECT_EQ(one_stage.embedding_group(3), Ranks{3});
}

// 2 key/value groups over 4 tensor ranks: neighbours hold the same.
TEST(Grid, KeyValueGroup) {
    const Grid grid{.tensor = 4, .data = 2, .pipeline = 2, .key_value_holders = 2};
    EXPECT_EQ(grid.key_value_group(0), (Ranks{0, 1}));
    EXPECT_EQ(grid.key_value_group(7), (Ranks{6, 7}));
    EXPECT_EQ(grid.key_value_group(14), (Ranks{14, 15}));
    const Grid one{.tensor = 4, .data = 2, .pipeline = 2};
    EXPECT_EQ(one.key_value_group(7), Ranks{7});
    const Grid all{.tensor = 4, .data = 2, .pipeline = 2, .key_value_holders = 4};
    EXPECT_EQ(all.key_value_group(7), all.tensor_group(7));
}

// A group is what is left when the coordinates that it does not span are held: filtered from all ranks.
TEST(Grid, GroupsAreWhatTheCoordinatesSay) {
    for (const int tensor : {1, 2, 3})
        for (const int data : {1, 2, 5})
            for (const int pipeline : {1, 2, 4}) {
                const Grid grid{tensor, data, pipeline};
                const auto filter = [&](const auto& same) {
                    Ranks ranks;
                    for (int rank = 0; rank < grid.ranks(); ++rank)
                        if (same(grid.coordinates(rank)))
                            ranks.push_back(rank);
                    return ranks;
                };
                for (int rank = 0; rank < grid.ranks(); ++rank) {
                    const Coordinates at = grid.coordinates(rank);
                    EXPECT_EQ(grid.rank(at), rank);
                    EXPECT_EQ(grid.tensor_group(rank), filter([&](const Coordinates& other) {
                                  return other.data == at.data && other.pipeline == at.pipeline;
                              }));
                    EXPECT_EQ(grid.data_group(rank), filter([&](const Coordinates& other) {
                                  return other.tensor == at.tensor && other.pipeline == at.pipeline;
                              }));
                    EXPECT_EQ(grid.pipeline_group(rank), filter([&](const Coordinates& other) {
                                  return other.tensor == at.tensor && other.data == at.data;
                              }));
                    EXPECT_EQ(grid.model_group(rank),
                              filter([&](const Coordinates& other) { return other.data == at.data; }));
                    EXPECT_EQ(grid.stage_group(rank), filter([&](const Coordinates& other) {
                                  return other.pipeline == at.pipeline;
                              }));
                }
            }
}

TEST(Grid, RanksOutsideAreOurBug) {
    const Grid grid{.tensor = 2, .data = 1, .pipeline = 2};
    EXPECT_THROW(grid.coordinates(4), Error);
    EXPECT_THROW(grid.coordinates(-1), Error);
    EXPECT_THROW(grid.rank({0, 1, 0}), Error);
}

} // namespace
} // namespace trireme::topology
