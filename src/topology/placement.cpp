// Which layers each (stage, chunk) owns; the rule for layers that do not divide evenly stands in the header.
#include "trireme/topology/placement.hpp"

#include "trireme/base/error.hpp"

namespace trireme::topology {

Placement place_layers(std::int64_t layers, int stages, int chunks) {
    TRIREME_ASSERT(stages >= 1 && chunks >= 1, stages, " stages, ", chunks, " chunks");
    const std::int64_t pieces = static_cast<std::int64_t>(stages) * chunks;
    if (layers < pieces)
        throw Error(
            ErrorCategory::usage,
            concat(layers, " layers do not fill ", stages, " pipeline stages",
                   chunks > 1 ? concat(" of ", chunks, " model chunks") : std::string(),
                   ": each needs at least one layer"),
            {concat("try: at least ", pieces, " layers, or fewer stages", chunks > 1 ? " or chunks" : "")});

    const std::int64_t each = layers / pieces, rest = layers % pieces;
    // Pieces 1, 2, ... are served first; the first comes after those pieces - 2, and rest < pieces never
    // reaches the last.
    const auto size = [&](std::int64_t piece) {
        const bool is_middle = piece > 0 && piece < pieces - 1;
        if (is_middle)
            return each + (piece <= rest ? 1 : 0);
        return each + (piece == 0 && rest > 0 && rest == pieces - 1 ? 1 : 0);
    };

    Placement placement;
    placement.layers.assign(static_cast<std::size_t>(stages),
                            std::vector<Interval>(static_cast<std::size_t>(chunks)));
    std::int64_t next = 0;
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
        const Interval owned{next, next + size(piece)};
        placement.layers[static_cast<std::size_t>(piece % stages)][static_cast<std::size_t>(piece / stages)] =
            owned;
        next = owned.end;
    }
    TRIREME_ASSERT(next == layers, next, " of ", layers, " layers placed");
    return placement;
}

} // namespace trireme::topology
