// Pipeline schedules as data: per-rank lists of instructions that one executor runs, one simulator times, one renderer
// draws and one checker proves.
//
// What an instruction means to the executor:
// - receive_forward / receive_backward post a non-blocking receive; the compute instruction of the same (micro-batch,
//   chunk) waits for it. Receives are posted ahead so that transfers overlap with compute. The first model piece has no
//   receive_forward, the last none of receive_backward.
// - send_* start a non-blocking send of what the compute instruction before it produced; the executor waits only when the
//   send buffer is needed again (kSendBuffers a direction).
// - backward = input gradient and weight gradient layer by layer. input_gradient and weight_gradient are the two halves
//   for schedules that delay the second (zero bubble); a schedule uses either `backward` or the halves.
// - reduce_gradients (of a chunk, micro_batch -1): its weight gradients are complete; DP reduction may start.
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
    // Promised bound, per stage and chunk: micro-batches whose forward has started and whose backward (the weight gradient
    // where it is apart) has not finished. The executor plans exactly this many activation slots, used round-robin, and
    // one more slot for the inputs that receives fill ahead.
    std::vector<std::vector<int>> in_flight;
};

inline constexpr int kSendBuffers = 2;

// Throws Error (usage) when the numbers do not fit the kind (what and why).
Schedule make_schedule(ScheduleKind kind, int stages, int micro_batches, int chunks);

// Forward passes only (evaluation, generation): each micro-batch through all pieces, kSendBuffers ahead at most. No backward,
// no reduction; in_flight is 1 everywhere.
Schedule make_forward_schedule(int stages, int micro_batches, int chunks);

// Proves that: every (micro-batch, chunk) is forwarded and then differentiated exactly once on every stage, in an order in
// which its inputs exist; sends and receives match one to one and in order on each channel (stage pair and direction);
// nothing can deadlock even if a send completes only once its receive is posted, with kSendBuffers buffers a direction and
// at most one receive posted ahead per direction and chunk; the in-flight bounds hold. Throws Error (internal) naming the first violation.
void check(const Schedule& schedule);

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
// costs[stage][chunk].
Timeline simulate(const Schedule& schedule, const std::vector<std::vector<PieceCost>>& costs);

// A chart in text: a line a stage, a column a unit of time.
std::string draw_text(const Timeline& timeline, double seconds_per_column);
// An SVG Gantt chart that a person can read: axes, legend, micro-batch numbers.
std::string draw_svg(const Schedule& schedule, const Timeline& timeline);

} // namespace trireme::topology
