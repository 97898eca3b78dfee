// What the generators share. A generator states only the order in which each rank computes; with_transfers()
// adds the sends, the receives posted ahead, the reductions and the in-flight bounds, by one rule for every
// kind of schedule.
#pragma once

#include <string>
#include <vector>

#include "trireme/topology/schedule.hpp"

namespace trireme::topology {

// Per stage, its compute instructions in the order in which they run.
using ComputeOrder = std::vector<std::vector<Instruction>>;

ComputeOrder gpipe_order(int stages, int micro_batches);
ComputeOrder one_f_one_b_order(int stages, int micro_batches);
ComputeOrder interleaved_order(int stages, int micro_batches, int chunks);
ComputeOrder zb_h1_order(int stages, int micro_batches);
ComputeOrder forward_order(int stages, int micro_batches, int chunks);

// Micro-batches that interleaved_order() sends around together, at most: p, or a few more where they are no
// multiple of p.
int largest_group(int stages, int micro_batches);

// group: micro-batches that follow each other through a chunk before the first of them comes around the ring
// to the next chunk; with more than p of them it arrives before it is due, and its receive must be posted.
Schedule with_transfers(ScheduleKind kind, int stages, int micro_batches, int chunks,
                        const ComputeOrder& order, Passes passes = Passes::forward_and_backward,
                        int group = 1);

// A chunk on a stage. Model order is chunk-major: all stages of chunk 0, then all of chunk 1, ...
struct Piece {
    int stage;
    int chunk;
};
inline bool is_first(Piece piece) {
    return piece.stage == 0 && piece.chunk == 0;
}
inline bool is_last(Piece piece, int stages, int chunks) {
    return piece.stage == stages - 1 && piece.chunk == chunks - 1;
}
inline Piece next(Piece piece, int stages) {
    return piece.stage + 1 < stages ? Piece{piece.stage + 1, piece.chunk} : Piece{0, piece.chunk + 1};
}
inline Piece previous(Piece piece, int stages) {
    return piece.stage > 0 ? Piece{piece.stage - 1, piece.chunk} : Piece{stages - 1, piece.chunk - 1};
}

inline bool is_compute(Op op) {
    return op == Op::forward || op == Op::backward || op == Op::input_gradient || op == Op::weight_gradient;
}
// Produces the gradient of the piece's input.
inline bool gives_input_gradient(Op op) {
    return op == Op::backward || op == Op::input_gradient;
}
inline bool gives_weight_gradient(Op op) {
    return op == Op::backward || op == Op::weight_gradient;
}
// Is the last that needs the activations of its micro-batch.
inline bool finishes(Op op, Passes passes) {
    return passes == Passes::forward_only ? op == Op::forward : gives_weight_gradient(op);
}

// Does this compute wait for, or produce, a message? With one stage there are none.
inline bool receives(Op op, Piece piece, int stages, int chunks) {
    if (stages == 1 || op == Op::weight_gradient)
        return false;
    return op == Op::forward ? !is_first(piece) : !is_last(piece, stages, chunks);
}
inline bool sends(Op op, Piece piece, int stages, int chunks) {
    if (stages == 1 || op == Op::weight_gradient)
        return false;
    return op == Op::forward ? !is_last(piece, stages, chunks) : !is_first(piece);
}

std::string text(const Instruction& instruction); // "forward of micro-batch 3, chunk 0"

} // namespace trireme::topology
