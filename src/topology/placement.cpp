// Which layers each (stage, chunk) owns; the rules stand in the header.
#include "trireme/topology/placement.hpp"

#include <numeric>

#include "trireme/base/error.hpp"

namespace trireme::topology {
namespace {

using Sizes = std::vector<std::int64_t>; // of pieces, in model order

Sizes even_sizes(std::int64_t layers, std::int64_t pieces) {
    const std::int64_t each = layers / pieces, rest = layers % pieces;
    // Pieces 1, 2, ... are served first; the first comes after those pieces - 2, and rest < pieces never
    // reaches the last.
    Sizes sizes;
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
        const bool is_middle = piece > 0 && piece < pieces - 1;
        if (is_middle)
            sizes.push_back(each + (piece <= rest ? 1 : 0));
        else
            sizes.push_back(each + (piece == 0 && rest > 0 && rest == pieces - 1 ? 1 : 0));
    }
    return sizes;
}

bool says_stages(const PipelineSplit& split) {
    return split.first_stage > 0 || split.last_stage > 0;
}

std::int64_t counted_ends(const PipelineSplit& split) {
    return (split.embedding == TakesPlace::yes) + (split.head == TakesPlace::yes);
}

// Layers of each stage, embedding and head included where they count; sound splits only.
Sizes stage_sizes(std::int64_t layers, int stages, const PipelineSplit& split) {
    if (!says_stages(split))
        return Sizes(static_cast<std::size_t>(stages), (layers + counted_ends(split)) / stages);
    const std::int64_t said = (split.first_stage > 0) + (split.last_stage > 0);
    const std::int64_t left = layers - split.first_stage - split.last_stage;
    Sizes sizes(static_cast<std::size_t>(stages), stages > said ? left / (stages - said) : 0);
    if (split.first_stage > 0)
        sizes.front() = split.first_stage;
    if (split.last_stage > 0)
        sizes.back() = split.last_stage;
    return sizes;
}

Sizes asked_sizes(std::int64_t layers, int stages, int chunks, const PipelineSplit& split) {
    if (!split.pieces.empty())
        return split.pieces;
    const Sizes of_stages = stage_sizes(layers, stages, split);
    Sizes sizes;
    for (int chunk = 0; chunk < chunks; ++chunk)
        for (const std::int64_t stage : of_stages)
            sizes.push_back(stage / chunks);
    sizes.front() -= split.embedding == TakesPlace::yes;
    sizes.back() -= split.head == TakesPlace::yes;
    return sizes;
}

bool is_even(const PipelineSplit& split) {
    return split == PipelineSplit{};
}

// First and last stage as they are said: "the first stage takes 3 of 4 layers".
std::optional<SplitProblem> problem_of_stages(std::int64_t layers, int stages, int chunks,
                                              const PipelineSplit& split) {
    const std::int64_t first = split.first_stage, last = split.last_stage;
    if (stages < 2)
        return SplitProblem{"one pipeline stage has neither a first nor a last beside it",
                            "2 pipeline stages or more, or leave the layers of first and last stage out"};
    const std::int64_t between = stages - (first > 0) - (last > 0);
    const auto counted = [](std::int64_t count) { return concat(count, count == 1 ? " layer" : " layers"); };
    std::string said;
    if (first > 0)
        said = concat(counted(first), " on the first stage", last > 0 ? " and " : "");
    if (last > 0)
        said += concat(counted(last), " on the last stage");
    const std::int64_t left = first > layers || last > layers ? -1 : layers - first - last;
    if (between == 0 && left != 0)
        return SplitProblem{concat(said, " do not make ", layers, " layers, and no stage stands between"),
                            "leave one of the two out: the other stage gets the rest"};
    if (left < between)
        return SplitProblem{concat("after ", said, " there are ", std::max<std::int64_t>(left, 0), " of ",
                                   layers, " layers left for ", between,
                                   between == 1 ? " other stage" : " other stages"),
                            "fewer layers there, or fewer stages"};
    if (between > 0 && left % between != 0)
        return SplitProblem{concat("after ", said, " there are ", left, " layers left, which ", between,
                                   " other stages cannot share evenly"),
                            concat("numbers that leave a multiple of ", between)};
    for (const std::int64_t size : stage_sizes(layers, stages, split))
        if (size % chunks != 0)
            return SplitProblem{
                concat("the ", size, " layers of a stage do not make ", chunks,
                       " model chunks of equal size"),
                concat("multiples of ", chunks, " on each stage, or another number of chunks")};
    return std::nullopt;
}

std::optional<SplitProblem> problem_of_counting(std::int64_t layers, int stages, int chunks,
                                                const PipelineSplit& split) {
    const std::int64_t counted = layers + counted_ends(split), pieces = std::int64_t{stages} * chunks;
    if (pieces == 1)
        return std::nullopt;
    if (counted % pieces != 0) {
        const std::int64_t lower = counted / pieces * pieces - counted_ends(split);
        return SplitProblem{concat(layers, " layers and what counts as one (", counted,
                                   " in all) cannot be shared evenly by ", describe_stages(stages, chunks)),
                            concat("a number of layers like ", lower > 0 ? concat(lower, " or ") : "",
                                   lower + pieces, ", or leave out what counts as a layer")};
    }
    return std::nullopt;
}

std::optional<SplitProblem> problem_of_pieces(std::int64_t layers, int stages, int chunks,
                                              const PipelineSplit& split) {
    const auto pieces = static_cast<std::int64_t>(split.pieces.size());
    const std::int64_t sum = std::accumulate(split.pieces.begin(), split.pieces.end(), std::int64_t{0});
    if (pieces != std::int64_t{stages} * chunks)
        return SplitProblem{
            concat("a layout of ", pieces, " pieces is not one of ", describe_stages(stages, chunks)),
            concat("a layout of ", std::int64_t{stages} * chunks, " pieces")};
    if (sum != layers)
        return SplitProblem{concat("the layout places ", sum, " layers, the model has ", layers),
                            concat("a layout of ", layers, " layers")};
    for (std::int64_t i = 1; i + 1 < pieces; ++i)
        if (split.pieces[static_cast<std::size_t>(i)] < 1)
            return SplitProblem{concat("piece ", i, " of the layout has nothing to compute"),
                                "a layer for each piece without embedding or head"};
    return std::nullopt;
}

} // namespace

std::string describe_stages(std::int64_t stages, std::int64_t chunks) {
    return concat(stages, " pipeline stages", chunks > 1 ? concat(" of ", chunks, " model chunks") : "");
}

std::optional<SplitProblem> problem_of(std::int64_t layers, int stages, int chunks,
                                       const PipelineSplit& split) {
    TRIREME_ASSERT(stages >= 1 && chunks >= 1, stages, " stages, ", chunks, " chunks");
    if (!split.pieces.empty())
        return problem_of_pieces(layers, stages, chunks, split);
    if (says_stages(split) && counted_ends(split) > 0)
        return SplitProblem{"embedding or head count as a layer in an even split only",
                            "leave out what counts as a layer, or the layers of first and last stage"};
    if (says_stages(split))
        return problem_of_stages(layers, stages, chunks, split);
    if (counted_ends(split) > 0)
        return problem_of_counting(layers, stages, chunks, split);
    const std::int64_t pieces = std::int64_t{stages} * chunks;
    if (layers < pieces)
        return SplitProblem{
            concat(layers, " layers do not fill ", describe_stages(stages, chunks), ": each needs a layer"),
            concat("at least ", pieces, " layers, or fewer stages", chunks > 1 ? " or chunks" : "")};
    return std::nullopt;
}

Placement place_layers(std::int64_t layers, int stages, int chunks, const PipelineSplit& split) {
    if (const std::optional<SplitProblem> problem = problem_of(layers, stages, chunks, split))
        throw Error(ErrorCategory::usage, problem->what, {concat("try: ", problem->attempt)});
    const std::int64_t pieces = std::int64_t{stages} * chunks;
    const Sizes sizes = is_even(split) || pieces == 1 ? even_sizes(layers, pieces)
                                                      : asked_sizes(layers, stages, chunks, split);
    Placement placement;
    placement.layers.assign(static_cast<std::size_t>(stages),
                            std::vector<Interval>(static_cast<std::size_t>(chunks)));
    std::int64_t next = 0;
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
        const Interval owned{next, next + sizes[static_cast<std::size_t>(piece)]};
        placement.layers[static_cast<std::size_t>(piece % stages)][static_cast<std::size_t>(piece / stages)] =
            owned;
        next = owned.end;
    }
    TRIREME_ASSERT(next == layers, next, " of ", layers, " layers placed");
    return placement;
}

} // namespace trireme::topology
