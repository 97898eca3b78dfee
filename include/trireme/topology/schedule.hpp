// Pipeline schedules as data: per-rank lists of instructions that one executor runs, one simulator times, one
// renderer draws and one checker proves.
//
// What an instruction means to the executor:
// - receive_forward / receive_backward post a non-blocking receive; the compute instruction of the same
//   (micro-batch, chunk) waits for it. Receives are posted ahead so that transfers overlap with compute:
//   usually one more of that direction than the next compute waits for, never more than there are slots to
//   receive into (inputs_held and gradients_held below). A receive_backward comes after its forward. The
//   first model piece has no receive_forward, the last none of receive_backward.
// - send_* start a non-blocking send of what the compute instruction before it produced; the executor waits
//   only when the send buffer is needed again (kSendBuffers a direction, all chunks together: send k of a
//   direction uses buffer k % kSendBuffers, and the compute that fills it waits for send k - kSendBuffers).
// - backward = input gradient and weight gradient layer by layer. input_gradient and weight_gradient are the
//   two halves for schedules that delay the second (zero bubble); a schedule uses either `backward` or the
//   halves. The received output gradient is needed until the second half is done.
// - reduce_gradients (of a chunk, micro_batch -1): its weight gradients are complete; DP reduction may start.
//
// A piece is one chunk on one stage; piece (s, c) feeds (s + 1, c), and (last stage, c) feeds (0, c + 1).
// With one stage nothing is sent or received: the output of chunk c is the input of chunk c + 1 where it
// lies. Forwards and backwards of a chunk both go in ascending order of micro-batches, so that weight
// gradients are summed in one order in every layout.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::topology {

enum class Op : std::uint8_t {
    receive_forward,
    forward,
    send_forward,
    receive_backward,
    backward,
    input_gradient,
    weight_gradient,
    send_backward,
    reduce_gradients,
};
std::string_view name(Op op);

struct Instruction {
    Op op;
    std::int32_t micro_batch;
    std::int32_t chunk;
    bool operator==(const Instruction&) const = default;
};

enum class ScheduleKind : std::uint8_t { gpipe, one_f_one_b, interleaved, zb_h1 };
std::string_view name(ScheduleKind kind); // "gpipe", "1f1b", "interleaved", "zb-h1"

struct Schedule {
    ScheduleKind kind;
    int stages;
    int micro_batches;
    int chunks;
    std::vector<std::vector<Instruction>> ranks; // [stage]
    // Promised bounds, [stage][chunk]. The executor plans exactly this many slots of each kind and uses them
    // round-robin (micro_batch % bound). A micro-batch is finished after its backward (the weight gradient
    // where it is apart).
    // Activations: micro-batches whose forward has started and that are not finished.
    std::vector<std::vector<int>> in_flight;
    // Inputs: those whose receive_forward is posted and that are not finished; in_flight + 1, or more where
    // receives are posted further ahead.
    std::vector<std::vector<int>> inputs_held;
    // Output gradients: those whose receive_backward is posted and that are not finished; 2 where one receive
    // is posted ahead. If the input gradient leaves from the buffer in which the output gradient came,
    // kSendBuffers more are needed, so that no receive finds its buffer still being sent from.
    std::vector<std::vector<int>> gradients_held;
};

inline constexpr int kSendBuffers = 2;

// Throws Error (usage) when the numbers do not fit the kind (what and why).
Schedule make_schedule(ScheduleKind kind, int stages, int micro_batches, int chunks);

// Forward passes only (evaluation, generation): each micro-batch through all pieces, kSendBuffers ahead at
// most. No backward, no reduction; in_flight is 1 everywhere. Its kind is gpipe, or interleaved with more
// than one chunk.
Schedule make_forward_schedule(int stages, int micro_batches, int chunks);

// Proves that: every (micro-batch, chunk) is forwarded and then differentiated exactly once on every stage,
// in an order in which its inputs exist, and reduced once after that; sends and receives match one to one and
// in order on each channel (sending stage, receiving stage and direction); the bounds hold, slots being used
// round-robin as promised above, and receives are posted into free slots only; nothing can deadlock even if a
// send completes only once its receive is posted, with kSendBuffers buffers a direction. A forward-only
// schedule has neither backwards nor reductions, and a micro-batch is finished when its forward is. Throws
// Error (internal) naming the first violation.
enum class Passes : std::uint8_t { forward_and_backward, forward_only };
void check(const Schedule& schedule, Passes passes = Passes::forward_and_backward);

// Seconds of one piece (model chunk on a stage) for one micro-batch.
struct PieceCost {
    double forward = 1;
    double input_gradient = 1;
    double weight_gradient = 1;
    double transfer = 0; // between neighbouring pieces, each direction
};
struct TimedInstruction {
    Instruction instruction;
    double start;
    double end;
};
struct Timeline {
    std::vector<std::vector<TimedInstruction>> ranks; // compute instructions only
    double seconds = 0;
    // Share of the ranks' time in which they do not compute: 1 - busy / (stages * seconds).
    double bubble = 0;
};
// costs[stage][chunk]. Follows the executor's rules: computes of a rank run one after the other; a transfer
// starts when it is sent and its receive is posted and the one before it on its channel is through, and takes
// the sending piece's time.
Timeline simulate(const Schedule& schedule, const std::vector<std::vector<PieceCost>>& costs);

// A chart in text: a line a stage, a column a unit of time, what runs in the middle of that unit: micro-batch
// m forward as the last digit of m, backward (or input gradient) as a, b, ... j for digits 0 ... 9, weight
// gradient as A ... J, idle as a dot. Two stages, three micro-batches under 1F1B with backwards twice as long
// as forwards:
//
//     stage 0  01..aa2bb.cc
//     stage 1  .0aa1bb2cc..
std::string draw_text(const Timeline& timeline, double seconds_per_column);
// An SVG Gantt chart for people: a row a stage, a numbered box a compute, colours for what it does, shades
// for chunks, the axis of time, a legend, and how much each stage idles.
std::string draw_svg(const Schedule& schedule, const Timeline& timeline);

} // namespace trireme::topology
