// Shares out layers by cost: one at a time, each to the stage that it makes the least expensive. Costs of a
// stage only grow with its layers, so no other way has a lower highest stage (exchange argument: a stage gets
// its n-th layer only when all others would cost as much with one more).
#include <algorithm>

#include "trireme/base/error.hpp"
#include "trireme/topology/placement.hpp"

namespace trireme::topology {

double LayerCosts::piece(std::int64_t layers, bool has_embedding, bool has_head) const {
    return static_cast<double>(layers) * layer + static_cast<double>(std::min(layers, dear_layers)) * dearer +
           (has_embedding ? embedding : 0) + (has_head ? head : 0);
}

std::vector<std::int64_t> balance_layers(std::int64_t layers, int stages, int chunks,
                                         const LayerCosts& costs) {
    const auto pieces = static_cast<std::size_t>(stages) * static_cast<std::size_t>(chunks);
    const auto is_end = [&](std::size_t piece) { return piece == 0 || piece + 1 == pieces; };
    std::vector<std::int64_t> sizes(pieces);
    std::int64_t left = layers;
    for (std::size_t piece = 0; piece < pieces; ++piece)
        left -= sizes[piece] = is_end(piece) ? 0 : 1;
    if (left < 0)
        throw Error(ErrorCategory::usage,
                    concat(layers, " layers do not fill ", describe_stages(stages, chunks),
                           ": each without embedding or head needs a layer"),
                    {concat("try: at least ", layers - left, " layers, or fewer stages")});
    const auto cost_of = [&](std::size_t piece, std::int64_t more) {
        return costs.piece(sizes[piece] + more, piece == 0, piece + 1 == pieces);
    };
    const auto step = static_cast<std::size_t>(stages);
    for (; left > 0; --left) {
        std::size_t best = 0;
        double least = 0;
        for (std::size_t stage = 0; stage < step; ++stage) {
            std::size_t cheapest = stage; // of its chunks
            for (std::size_t piece = stage; piece < pieces; piece += step)
                if (cost_of(piece, 1) <= cost_of(cheapest, 1))
                    cheapest = piece;
            double then = 0;
            for (std::size_t piece = stage; piece < pieces; piece += step)
                then += cost_of(piece, piece == cheapest ? 1 : 0);
            if (stage == 0 || then <= least) {
                best = cheapest;
                least = then;
            }
        }
        ++sizes[best];
    }
    return sizes;
}

} // namespace trireme::topology
