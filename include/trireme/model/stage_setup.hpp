// What every piece of a model needs to know to declare and run itself: the model, this rank's place, types,
// sizes.
#pragma once

#include <cstdint>

#include "trireme/backend/backend.hpp"
#include "trireme/catalogue/model_config.hpp"
#include "trireme/comm/communicator.hpp"
#include "trireme/topology/grid.hpp"

namespace trireme::model {

// Modules of a layer whose results a backward pass computes again from what came before them.
struct RecomputedModules {
    bool core_attention = true; // attention's output and statistics; queries, keys and values are kept
    bool norms = false;         // outputs and statistics of both norms; the residual stream is kept
    bool mlp = false;           // what is as wide as the MLP: before and after the activation function
    bool operator==(const RecomputedModules&) const = default;
};

// Which activations are computed again in the backward pass instead of kept.
// none: all kept. selective: what `modules` says, in every layer. uniform: the layers of a chunk
// in groups of `layers`, only each group's input kept. block: the first `layers` layers of each chunk, each
// on its own; the rest kept.
struct Recompute {
    enum class Mode : std::uint8_t { none, selective, uniform, block };
    Mode mode = Mode::none;
    std::int64_t layers = 0;
    RecomputedModules modules = {}; // of Mode::selective
};

// Whether tensor ranks hold activations outside their cut regions whole, or a part of the sequence each
// (Korthikanti et al. 2022): the all-reduce at the end of a region becomes a reduce-scatter, and an
// all-gather stands at its beginning.
enum class SequenceParallel : std::uint8_t { no, yes };

// What the end of a document does within a sample (Megatron-LM's names: --reset-attention-mask,
// --reset-position-ids, --eod-mask-loss). A document ends with its last token, `end`, which belongs to it.
struct DocumentSetup {
    bool masks_attention = false;    // a token sees its own document alone
    bool restarts_positions = false; // the first token after an end is at position 0
    bool masks_loss = false;         // what an end predicts, the next document's first token, does not count
    std::int32_t end = -1;           // the token; -1: none, a sample is one document

    bool any() const { return masks_attention || restarts_positions || masks_loss; }
};
// Whether each layer needs to know documents or positions, not embedding and head alone.
bool layers_need_marks(const DocumentSetup& documents, catalogue::Positions positions);

struct StageSetup {
    catalogue::ModelConfig config;
    topology::Grid grid;
    topology::Coordinates at;
    DType type = DType::f32;      // of activations and weights
    std::int64_t micro_batch = 1; // B
    std::uint64_t seed = 0;
    Recompute recompute;
    SequenceParallel sequence_parallel = SequenceParallel::no;
    DocumentSetup documents;
};

// Where the work is done; known only once memory has been taken.
struct Machinery {
    backend::Backend* backend = nullptr;
    comm::Communicator* tensor = nullptr; // the tensor group
};

// train: dropout on, activations kept for a backward pass. evaluate: dropout off, loss only. infer: dropout
// off, logits only.
enum class Mode : std::uint8_t { train, evaluate, infer };

// The sizes held by one rank, derived once.
struct Dimensions {
    std::int64_t T, B, n, C; // sequence, micro-batch, tokens = T * B, hidden
    // Outside the regions that tensor ranks cut: the positions, tokens and first position held here. All,
    // from 0, without sequence parallelism.
    std::int64_t Ts, ns, first_position;
    std::int64_t H, G, D, F; // heads, groups, head dimension, MLP width: this tensor rank's part
    std::int64_t V;          // vocabulary rows of this rank, padding included
    std::int64_t valid_rows; // of these, rows of the real vocabulary
    std::int64_t first_row;  // of the vocabulary
    std::int64_t first_head;
};
Dimensions dimensions(const StageSetup& setup);

} // namespace trireme::model
