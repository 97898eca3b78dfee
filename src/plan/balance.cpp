// FLOPs of layers, embedding and head, put together by pieces.
#include "trireme/plan/balance.hpp"

#include "trireme/catalogue/catalogue.hpp"
#include "trireme/plan/declared_rank.hpp"

namespace trireme::plan {

topology::LayerCosts layer_costs(const RunSetup& setup) {
    using Mode = model::Recompute::Mode;
    const catalogue::PartFlops flops =
        catalogue::part_flops_per_token(setup.model, catalogue::AttentionFlops::causal);
    topology::LayerCosts costs{.layer = flops.layer, .embedding = flops.embedding, .head = flops.head};
    const model::RecomputedModules& modules = setup.recompute.modules;
    // Of the MLP's matrices all but the last are multiplied by again.
    const double matrices = setup.model.activation == catalogue::Activation::swiglu ? 3 : 2;
    switch (setup.recompute.mode) {
    case Mode::none:
        break;
    case Mode::selective:
        costs.layer += (modules.core_attention ? flops.attention_scores / 3 : 0) +
                       (modules.mlp ? flops.mlp / 3 * (matrices - 1) / matrices : 0);
        break;
    case Mode::uniform:
        costs.layer += flops.layer / 3;
        break;
    case Mode::block:
        costs.dear_layers = setup.recompute.layers;
        costs.dearer = flops.layer / 3;
        break;
    }
    return costs;
}

std::vector<std::int64_t> balanced_pieces(const RunSetup& setup) {
    return topology::balance_layers(setup.model.layers, setup.grid.pipeline, setup.chunks,
                                    layer_costs(setup));
}

std::vector<std::vector<topology::PieceCost>> relative_costs(const RunSetup& setup) {
    const topology::Placement placement = placement_of(setup);
    const topology::LayerCosts costs = layer_costs(setup);
    const bool even = setup.split == topology::PipelineSplit{};
    const int stages = placement.stages(), chunks = placement.chunks();
    const double mean = (costs.piece(setup.model.layers, true, true)) / (stages * chunks);
    std::vector<std::vector<topology::PieceCost>> result;
    for (int stage = 0; stage < stages; ++stage) {
        result.emplace_back();
        for (int chunk = 0; chunk < chunks; ++chunk) {
            const model::PieceSetup piece = pipeline::piece_of(placement, stage, chunk);
            const double cost =
                even ? 1 : costs.piece(piece.layers.size(), piece.has_embedding, piece.has_head) / mean;
            result.back().push_back({cost, cost, cost});
        }
    }
    return result;
}

} // namespace trireme::plan
