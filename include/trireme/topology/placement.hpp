// Which transformer layers each pipeline stage (and model chunk) owns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/topology/box.hpp"

namespace trireme::topology {

// layers[stage][chunk] is the interval of global layer numbers. Chunk c of stage s comes after chunk c of
// stage s - 1 and before chunk c + 1 of stage 0 (Megatron's interleaved order). The embedding belongs to
// (stage 0, chunk 0), the head to (last stage, last chunk).
struct Placement {
    std::vector<std::vector<Interval>> layers;
    int stages() const { return static_cast<int>(layers.size()); }
    int chunks() const { return static_cast<int>(layers.front().size()); }
};

// Whether embedding or head takes the place of a layer where layers are shared out.
enum class TakesPlace : std::uint8_t { no, yes };

// How layers are split over stages and chunks. By default as evenly as possible, see place_layers(). What is
// asked for follows Megatron-LM, at most one of the three:
// - layers of the first or the last stage; the other stages share the rest evenly;
// - embedding and (or) head count as one layer each in an even split, so that their stages get fewer layers;
// - the layers of each piece, in model order: chunk 0 of all stages, then chunk 1 of all, ...
struct PipelineSplit {
    std::int64_t first_stage = 0, last_stage = 0; // layers; 0: not said
    TakesPlace embedding = TakesPlace::no, head = TakesPlace::no;
    std::vector<std::int64_t> pieces = {}; // layers; empty: not said
    bool operator==(const PipelineSplit&) const = default;
};

// Every (stage, chunk) gets floor(layers / (stages * chunks)) layers; the remaining ones go one each to the
// middle pieces first (1, 2, ... in model order), then to the first, then to the last, since first and last
// carry embedding and head. Example: 7 layers over 4 stages -> 2 + 2 + 2 + 1 (pieces 1, 2, then 0).
//
// Asked for otherwise, numbers must divide: the layers of a stage into its chunks, what first and last stage
// leave into the stages between. Only the pieces with embedding or head may have no layer. Example: 30 layers
// over 4 stages, embedding and head counting, -> 7 + 8 + 8 + 7; 2 chunks: 3 + 4, 4 + 4, 4 + 4, 4 + 3.
// Throws Error (usage) where problem_of() finds something.
Placement place_layers(std::int64_t layers, int stages, int chunks, const PipelineSplit& split = {});

// "4 pipeline stages", "4 pipeline stages of 2 model chunks": for messages.
std::string describe_stages(std::int64_t stages, std::int64_t chunks);

// What is wrong with a split in one sentence, and what to try; nothing if it is possible.
struct SplitProblem {
    std::string what, attempt;
};
std::optional<SplitProblem> problem_of(std::int64_t layers, int stages, int chunks,
                                       const PipelineSplit& split);

// Costs in any unit, all of one: what a stage spends on a micro-batch.
struct LayerCosts {
    double layer = 1;
    double embedding = 0, head = 0;
    // The first `dear_layers` layers of each piece cost this much more each (recomputed ones).
    std::int64_t dear_layers = 0;
    double dearer = 0;

    double piece(std::int64_t layers, bool has_embedding, bool has_head) const;
};
// The layers of each piece, in model order, such that the stage with the highest costs has the lowest
// possible, and within stages the same holds for chunks; only pieces with embedding or head may get none.
// Among equals the later stage gets the layer: fewer micro-batches are in flight there. Throws Error (usage)
// if there are too few layers.
std::vector<std::int64_t> balance_layers(std::int64_t layers, int stages, int chunks,
                                         const LayerCosts& costs);

// The layers of each piece from Megatron-LM's text: E embedding, t a layer, L head, | ends a stage, X*n
// repeats what one letter says, (...)*n a group; commas are for the eye. "Et*3|(tt|)*2,t|L" -> 3, 2, 2, 1, 0.
// Returns what is wrong with the text instead: E stands first, L last, each once; there is no m.
struct LayoutText {
    std::vector<std::int64_t> pieces;
    std::string wrong; // "" if nothing
};
LayoutText read_layout(const std::string& text);

} // namespace trireme::topology
