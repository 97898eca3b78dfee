// Intervals and boxes by hand-worked examples; the cut of flat ranges against brute force over all ranges of
// many shapes.
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "trireme/base/error.hpp"
#include "trireme/topology/box.hpp"

namespace trireme::topology {
namespace {

using Shape = std::vector<std::int64_t>;

TEST(Part, PaddedVocabularyOfTheHeader) {
    EXPECT_EQ(part(10, 12, 4, 0), (Interval{0, 3}));
    EXPECT_EQ(part(10, 12, 4, 1), (Interval{3, 6}));
    EXPECT_EQ(part(10, 12, 4, 2), (Interval{6, 9}));
    EXPECT_EQ(part(10, 12, 4, 3), (Interval{9, 10}));
}

TEST(Part, BeyondTheExtentIsEmpty) {
    EXPECT_EQ(part(5, 16, 4, 1), (Interval{4, 5}));
    EXPECT_TRUE(part(5, 16, 4, 2).empty());
    EXPECT_TRUE(part(5, 16, 4, 3).empty());
}

TEST(Part, PartsTileTheExtent) {
    for (std::int64_t extent = 0; extent <= 20; ++extent)
        for (int parts = 1; parts <= 7; ++parts)
            for (std::int64_t padded = extent; padded <= extent + 9; ++padded) {
                std::int64_t next = 0;
                for (int i = 0; i < parts; ++i) {
                    const Interval interval = part(extent, padded, parts, i);
                    EXPECT_EQ(interval.begin, next);
                    EXPECT_LE(interval.size(), (padded + parts - 1) / parts);
                    next = interval.end;
                }
                EXPECT_EQ(next, extent);
            }
}

TEST(Interval, Intersection) {
    EXPECT_EQ(intersect(Interval{0, 5}, Interval{3, 9}), (Interval{3, 5}));
    EXPECT_EQ(intersect(Interval{3, 9}, Interval{0, 5}), (Interval{3, 5}));
    EXPECT_TRUE(intersect(Interval{0, 3}, Interval{3, 9}).empty());
    EXPECT_EQ(intersect(Interval{0, 3}, Interval{7, 9}).size(), 0);
}

TEST(Box, Basics) {
    const Box whole = Box::whole(Shape{3, 128});
    EXPECT_EQ(whole.text(), "[0,3) x [0,128)");
    EXPECT_EQ(whole.elements(), 384);
    EXPECT_EQ(whole.extents(), (Shape{3, 128}));
    EXPECT_FALSE(whole.empty());
    const Box common = intersect(whole, Box{{{2, 8}, {100, 200}}});
    EXPECT_EQ(common, (Box{{{2, 3}, {100, 128}}}));
    EXPECT_EQ(common.elements(), 28);
    const Box nothing = intersect(whole, Box{{{3, 8}, {0, 128}}});
    EXPECT_TRUE(nothing.empty());
    EXPECT_EQ(nothing.elements(), 0);
    EXPECT_EQ(Box{}.elements(), 1); // a scalar
}

TEST(Box, ElementsBeyond32Bits) {
    EXPECT_EQ(Box::whole(Shape{100000, 100000}).elements(), 10000000000);
}

TEST(BoxesOfFlatRange, HeaderExample) {
    const std::vector<Box> expected{{{{0, 1}, {2, 3}}}, {{{1, 2}, {0, 3}}}, {{{2, 3}, {0, 2}}}};
    EXPECT_EQ(boxes_of_flat_range(Shape{4, 3}, {2, 8}), expected);
}

TEST(BoxesOfFlatRange, LargeTensor) {
    const std::int64_t rows = 152064, columns = 12288; // more than 2^30 elements
    const std::vector<Box> boxes = boxes_of_flat_range(Shape{rows, columns}, {5, rows * columns - 7});
    const std::vector<Box> expected{
        {{{0, 1}, {5, columns}}}, {{{1, rows - 1}, {0, columns}}}, {{{rows - 1, rows}, {0, columns - 7}}}};
    EXPECT_EQ(boxes, expected);
}

// The flat indices of a box, ascending, found by testing every element of the tensor.
std::set<std::int64_t> flat_indices(const Shape& shape, const Box& box) {
    std::set<std::int64_t> indices;
    const std::int64_t total = Box::whole(shape).elements();
    for (std::int64_t flat = 0; flat < total; ++flat) {
        std::int64_t rest = flat;
        bool is_inside = true;
        for (std::size_t axis = shape.size(); axis-- > 0;) {
            const std::int64_t at = rest % shape[axis];
            rest /= shape[axis];
            is_inside = is_inside && at >= box.axes[axis].begin && at < box.axes[axis].end;
        }
        if (is_inside)
            indices.insert(flat);
    }
    return indices;
}

// Whether a run of flat indices is a box: its bounding box has no more elements than it.
bool is_box(const Shape& shape, std::int64_t begin, std::int64_t end) {
    std::int64_t elements = 1;
    std::int64_t inner = 1;
    for (std::size_t axis = shape.size(); axis-- > 0; inner *= shape[axis]) {
        std::int64_t low = std::numeric_limits<std::int64_t>::max(), high = -1;
        for (std::int64_t flat = begin; flat < end; ++flat) {
            low = std::min(low, flat / inner % shape[axis]);
            high = std::max(high, flat / inner % shape[axis]);
        }
        elements *= high - low + 1;
    }
    return elements == end - begin;
}

// The least number of boxes into which [begin, end) can be cut in ascending order, by dynamic programming
// over cuts.
std::vector<std::vector<std::size_t>> least_boxes(const Shape& shape, std::int64_t total) {
    const auto n = static_cast<std::size_t>(total);
    std::vector<std::vector<std::size_t>> least(n + 1, std::vector<std::size_t>(n + 1, 0));
    for (std::size_t begin = 0; begin < n; ++begin)
        for (std::size_t end = begin + 1; end <= n; ++end) {
            std::size_t best = n + 1;
            for (std::size_t cut = begin; cut < end; ++cut)
                if (is_box(shape, static_cast<std::int64_t>(cut), static_cast<std::int64_t>(end)))
                    best = std::min(best, least[begin][cut] + 1);
            least[begin][end] = best;
        }
    return least;
}

TEST(BoxesOfFlatRange, EveryRangeOfManyShapes) {
    const std::vector<Shape> shapes{{1},          {7},          {4, 3},      {3, 4},    {1, 5},
                                    {5, 1},       {2, 3, 4},    {4, 1, 3},   {1, 1, 6}, {3, 2, 1},
                                    {2, 2, 2, 3}, {2, 1, 3, 2}, {1, 2, 1, 2}};
    for (const Shape& shape : shapes) {
        const std::int64_t total = Box::whole(shape).elements();
        const auto least = least_boxes(shape, total);
        for (std::int64_t begin = 0; begin <= total; ++begin)
            for (std::int64_t end = begin; end <= total; ++end) {
                const std::vector<Box> boxes = boxes_of_flat_range(shape, {begin, end});
                SCOPED_TRACE(concat(Box::whole(shape).text(), " flat [", begin, ",", end, ")"));
                std::int64_t next = begin;
                for (const Box& box : boxes) {
                    const std::set<std::int64_t> indices = flat_indices(shape, box);
                    ASSERT_FALSE(indices.empty());
                    ASSERT_EQ(*indices.begin(), next);
                    ASSERT_EQ(*indices.rbegin() - *indices.begin() + 1,
                              static_cast<std::int64_t>(indices.size()));
                    next = *indices.rbegin() + 1;
                }
                ASSERT_EQ(next, end);
                ASSERT_EQ(boxes.size(),
                          least[static_cast<std::size_t>(begin)][static_cast<std::size_t>(end)]);
                ASSERT_LE(boxes.size(), 2 * shape.size() - 1);
            }
    }
}

TEST(BoxesOfFlatRange, ScalarsAndEmptyTensors) {
    EXPECT_EQ(boxes_of_flat_range(Shape{}, {0, 1}), std::vector<Box>{Box{}});
    EXPECT_TRUE(boxes_of_flat_range(Shape{}, {0, 0}).empty());
    EXPECT_TRUE(boxes_of_flat_range(Shape{3, 0}, {0, 0}).empty());
    EXPECT_THROW(boxes_of_flat_range(Shape{4, 3}, {2, 13}), Error);
}

// Every box of some shapes: runs cover it once, in order, and no two of them could be one.
TEST(ForEachRun, EveryBoxOfManyShapes) {
    for (const Shape& shape :
         std::vector<Shape>{{1}, {7}, {4, 3}, {1, 5}, {5, 1}, {2, 3, 4}, {3, 2, 1}, {2, 1, 3, 2}}) {
        std::vector<Box> boxes{Box{}};
        for (const std::int64_t extent : shape) {
            std::vector<Box> longer;
            for (const Box& box : boxes)
                for (std::int64_t begin = 0; begin < extent; ++begin)
                    for (std::int64_t end = begin + 1; end <= extent; ++end) {
                        longer.push_back(box);
                        longer.back().axes.push_back({begin, end});
                    }
            boxes = std::move(longer);
        }
        for (const Box& box : boxes) {
            const std::set<std::int64_t> indices = flat_indices(shape, box);
            std::vector<std::int64_t> covered;
            std::int64_t previous_end = -1;
            for_each_run(shape, box, [&](std::int64_t first, std::int64_t count) {
                EXPECT_GT(first, previous_end) << box.text() << ": two runs that are one";
                previous_end = first + count;
                for (std::int64_t i = first; i < first + count; ++i)
                    covered.push_back(i);
            });
            EXPECT_EQ(covered, std::vector<std::int64_t>(indices.begin(), indices.end())) << box.text();
        }
    }
    int runs = 0;
    for_each_run(Shape{3, 4}, Box{{{1, 1}, {0, 4}}}, [&](std::int64_t, std::int64_t) { ++runs; });
    EXPECT_EQ(runs, 0) << "an empty box has no elements";
    for_each_run(Shape{}, Box{},
                 [&](std::int64_t first, std::int64_t count) { runs += first == 0 && count == 1; });
    EXPECT_EQ(runs, 1) << "a scalar has one";
}

} // namespace
} // namespace trireme::topology
