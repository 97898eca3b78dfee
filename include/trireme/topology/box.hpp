// Intervals and boxes of global index space: which part of a logical N-D tensor somebody holds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trireme::topology {

// [begin, end).
struct Interval {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t size() const { return end - begin; }
    bool empty() const { return end <= begin; }
    bool operator==(const Interval&) const = default;
};

// Part `index` of `parts` equal parts of [0, extent) cut at multiples of ceil(padded / parts), clipped to
// extent: a vocabulary of 10 over 4 ranks padded to 12 gives [0,3) [3,6) [6,9) [9,10).
Interval part(std::int64_t extent, std::int64_t padded, int parts, int index);

Interval intersect(const Interval& a, const Interval& b);

// A product of intervals, one an axis, outermost first.
struct Box {
    std::vector<Interval> axes;

    static Box whole(std::span<const std::int64_t> shape);
    std::int64_t elements() const;
    bool empty() const;
    std::vector<std::int64_t> extents() const;
    std::string text() const; // "[0,3) x [0,128)"
    bool operator==(const Box&) const = default;
};

Box intersect(const Box& a, const Box& b);

// A run [flat.begin, flat.end) of the row-major elements of a tensor of `shape`, as disjoint boxes in
// ascending order (at most 2 * rank - 1 of them), with no box split that need not be. This is how a flat
// ZeRO-1 range of a bucket becomes hyperslabs of logical tensors. Example: shape [4, 3], flat [2, 8) -> [0,1)
// x [2,3), [1,2) x [0,3) merged with nothing, [2,3) x [0,2).
std::vector<Box> boxes_of_flat_range(std::span<const std::int64_t> shape, const Interval& flat);

// Calls run(first, count) for each run of neighbours, ascending, that make up `box` among the row-major
// elements of a tensor of `shape`. Example: shape [4, 3], box [1,3) x [1,3) -> (4, 2), (7, 2); [1,3) x [0,3)
// -> (3, 6).
template <class Run>
void for_each_run(std::span<const std::int64_t> shape, const Box& box, Run run) {
    if (box.empty())
        return;
    std::size_t inner = shape.size(); // axes from here on are whole: one run holds `count` of their elements
    std::int64_t row = 1;
    while (inner > 0 && box.axes[inner - 1].size() == shape[inner - 1])
        row *= shape[--inner];
    const std::int64_t count = inner > 0 ? row * box.axes[inner - 1].size() : row;
    if (inner > 0)
        --inner;
    std::vector<std::int64_t> at(inner); // index within the box on each axis outside of the run
    for (;;) {
        std::int64_t first = 0;
        for (std::size_t axis = 0; axis < inner; ++axis)
            first = (first + box.axes[axis].begin + at[axis]) * shape[axis + 1];
        if (!shape.empty())
            first += box.axes[inner].begin;
        for (std::size_t axis = inner + 1; axis < shape.size(); ++axis)
            first *= shape[axis];
        run(first, count);
        std::size_t axis = inner;
        while (axis > 0 && ++at[axis - 1] == box.axes[axis - 1].size())
            at[--axis] = 0;
        if (axis == 0)
            return;
    }
}

} // namespace trireme::topology
