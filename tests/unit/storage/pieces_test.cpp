// cut(): the pieces of a box, in order, cover each element once and are no larger than asked for.
#include <gtest/gtest.h>

#include "trireme/storage/pieces.hpp"

namespace trireme::storage {

namespace {

TEST(Pieces, CoverEachElementOnceInRowMajorOrder) {
    const topology::Box box{{{2, 5}, {0, 4}, {7, 12}}};
    for (std::int64_t limit = 1; limit <= 61; ++limit) {
        std::int64_t next = 0; // among the box's elements
        for (const BoxPiece& piece : cut(box, limit)) {
            ASSERT_EQ(piece.first, next) << "limit " << limit;
            EXPECT_LE(piece.box.elements(), limit);
            for (std::int64_t i = piece.box.axes[0].begin; i < piece.box.axes[0].end; ++i)
                for (std::int64_t j = piece.box.axes[1].begin; j < piece.box.axes[1].end; ++j)
                    for (std::int64_t k = piece.box.axes[2].begin; k < piece.box.axes[2].end; ++k)
                        ASSERT_EQ(((i - 2) * 4 + j) * 5 + (k - 7), next++) << "limit " << limit;
        }
        EXPECT_EQ(next, 60) << "limit " << limit;
    }
}

TEST(Pieces, AreAsFewAsSlicesAllow) {
    EXPECT_EQ(cut({{{0, 5}, {0, 4}}}, 8).size(), 3u);
    EXPECT_EQ(cut({{{0, 5}, {0, 4}}}, 20).size(), 1u);
    EXPECT_EQ(cut({{{0, 5}, {0, 4}}}, 3).size(), 10u);
    EXPECT_TRUE(cut({{{3, 3}, {0, 4}}}, 8).empty());
}

} // namespace

} // namespace trireme::storage
