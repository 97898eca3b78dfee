// Cutting boxes into pieces: along the outermost axis whose slices fit, index by index outside of it.
#include "trireme/storage/pieces.hpp"

#include <algorithm>

#include "trireme/base/error.hpp"

namespace trireme::storage {

namespace {

void cut_from(topology::Box box, std::size_t axis, std::int64_t limit, std::int64_t first,
              std::vector<BoxPiece>& out) {
    const std::int64_t elements = box.elements();
    if (elements <= limit) {
        out.push_back({std::move(box), first});
        return;
    }
    const topology::Interval whole = box.axes[axis];
    const std::int64_t slice = elements / whole.size();
    const std::int64_t step = std::max<std::int64_t>(1, limit / slice);
    for (std::int64_t begin = whole.begin; begin < whole.end; begin += step) {
        topology::Box part = box;
        part.axes[axis] = {begin, std::min(begin + step, whole.end)};
        cut_from(std::move(part), axis + 1, limit, first + (begin - whole.begin) * slice, out);
    }
}

} // namespace

std::vector<BoxPiece> cut(const topology::Box& box, std::int64_t limit) {
    TRIREME_ASSERT(limit >= 1, "pieces of ", limit, " elements");
    std::vector<BoxPiece> pieces;
    if (!box.empty())
        cut_from(box, 0, limit, 0, pieces);
    return pieces;
}

} // namespace trireme::storage
