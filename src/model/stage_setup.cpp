// Sizes of one rank's part of the model.
#include "trireme/model/stage_setup.hpp"

#include <algorithm>

#include "trireme/catalogue/catalogue.hpp"

namespace trireme::model {

bool layers_need_marks(const DocumentSetup& documents, catalogue::Positions positions) {
    return documents.masks_attention ||
           (documents.restarts_positions && positions == catalogue::Positions::rotary);
}

Dimensions dimensions(const StageSetup& setup) {
    const catalogue::ModelConfig& config = setup.config;
    const std::int64_t parts = setup.grid.tensor, rank = setup.at.tensor;
    TRIREME_ASSERT(config.heads % parts == 0 && config.ffn % parts == 0, "TP ", parts,
                   " does not divide heads or MLP width");
    const int holders = catalogue::key_value_holders(config, setup.grid.tensor);
    TRIREME_ASSERT(setup.grid.key_value_holders == holders, setup.grid.key_value_holders,
                   " tensor ranks hold a key/value group, not ", holders);
    Dimensions d{};
    d.T = config.sequence;
    d.B = setup.micro_batch;
    d.n = d.T * d.B;
    d.C = config.hidden;
    const bool cut = setup.sequence_parallel == SequenceParallel::yes;
    TRIREME_ASSERT(!cut || d.T % parts == 0, "TP ", parts, " does not divide the sequence ", d.T);
    d.Ts = cut ? d.T / parts : d.T;
    d.ns = d.Ts * d.B;
    d.first_position = cut ? d.Ts * rank : 0;
    d.H = config.heads / parts;
    d.G = config.groups * holders / parts;
    d.D = config.head_dim;
    d.F = config.ffn / parts;
    d.V = catalogue::padded_vocabulary(config, setup.grid.tensor) / parts;
    d.first_row = d.V * rank;
    d.valid_rows = std::clamp<std::int64_t>(config.vocabulary - d.first_row, 0, d.V);
    d.first_head = d.H * rank;
    return d;
}

} // namespace trireme::model
