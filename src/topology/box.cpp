// Intervals and boxes, and the cut of a flat row-major range into boxes.
#include "trireme/topology/box.hpp"

#include <algorithm>

#include "trireme/base/error.hpp"
#include "trireme/base/sizes.hpp"

namespace trireme::topology {

Interval part(std::int64_t extent, std::int64_t padded, int parts, int index) {
    TRIREME_ASSERT(extent >= 0 && padded >= extent, "extent ", extent, " padded to ", padded);
    TRIREME_ASSERT(parts >= 1 && index >= 0 && index < parts, "part ", index, " of ", parts);
    const std::int64_t size = divide_round_up(padded, parts);
    return {std::min(extent, size * index), std::min(extent, size * (index + 1))};
}

Interval intersect(const Interval& a, const Interval& b) {
    const std::int64_t begin = std::max(a.begin, b.begin);
    return {begin, std::max(begin, std::min(a.end, b.end))};
}

Box Box::whole(std::span<const std::int64_t> shape) {
    Box box;
    box.axes.reserve(shape.size());
    for (const std::int64_t extent : shape)
        box.axes.push_back({0, extent});
    return box;
}

std::int64_t Box::elements() const {
    std::int64_t product = 1;
    for (const Interval& axis : axes)
        product *= std::max<std::int64_t>(0, axis.size());
    return product;
}

bool Box::empty() const {
    return std::any_of(axes.begin(), axes.end(), [](const Interval& axis) { return axis.empty(); });
}

std::vector<std::int64_t> Box::extents() const {
    std::vector<std::int64_t> sizes;
    sizes.reserve(axes.size());
    for (const Interval& axis : axes)
        sizes.push_back(std::max<std::int64_t>(0, axis.size()));
    return sizes;
}

std::string Box::text() const {
    if (axes.empty())
        return "scalar";
    std::string result;
    for (const Interval& axis : axes)
        result += concat(result.empty() ? "" : " x ", "[", axis.begin, ",", axis.end, ")");
    return result;
}

Box intersect(const Box& a, const Box& b) {
    TRIREME_ASSERT(a.axes.size() == b.axes.size(), a.text(), " and ", b.text());
    Box box;
    box.axes.reserve(a.axes.size());
    for (std::size_t i = 0; i < a.axes.size(); ++i)
        box.axes.push_back(intersect(a.axes[i], b.axes[i]));
    return box;
}

namespace {

// Cuts the flat range of the sub-tensor that `prefix` (one index wide on each of its axes) leaves free. A
// range is a ragged first row, whole rows, and a ragged last row; ragged rows are ranges of one axis less.
// Only the topmost axis that splits has both ragged ends, below it each end has one, hence at most 2 * rank -
// 1 boxes.
void cut(std::span<const std::int64_t> shape, Box prefix, const Interval& flat, std::vector<Box>& boxes) {
    const std::size_t axis = prefix.axes.size();
    if (axis == shape.size()) {
        boxes.push_back(std::move(prefix));
        return;
    }
    std::int64_t row = 1;
    for (std::size_t i = axis + 1; i < shape.size(); ++i)
        row *= shape[i];

    const auto in_row = [&](std::int64_t index, const Interval& range) {
        Box inner = prefix;
        inner.axes.push_back({index, index + 1});
        cut(shape, std::move(inner), range, boxes);
    };
    std::int64_t first = flat.begin / row;
    const std::int64_t last = flat.end / row;
    const std::int64_t head = flat.begin % row, tail = flat.end % row;
    if (first == last) {
        in_row(first, {head, tail});
        return;
    }
    if (head > 0) {
        in_row(first, {head, row});
        ++first;
    }
    if (first < last) {
        Box rows = prefix;
        rows.axes.push_back({first, last});
        for (std::size_t i = axis + 1; i < shape.size(); ++i)
            rows.axes.push_back({0, shape[i]});
        boxes.push_back(std::move(rows));
    }
    if (tail > 0)
        in_row(last, {0, tail});
}

} // namespace

std::vector<Box> boxes_of_flat_range(std::span<const std::int64_t> shape, const Interval& flat) {
    const Box whole = Box::whole(shape);
    TRIREME_ASSERT(flat.begin >= 0 && flat.end <= whole.elements(), "[", flat.begin, ",", flat.end,
                   ") of a tensor of ", whole.text());
    std::vector<Box> boxes;
    if (!flat.empty())
        cut(shape, {}, flat, boxes);
    return boxes;
}

} // namespace trireme::topology
