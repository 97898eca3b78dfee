// How long a step takes on a machine, foreseen: the pieces of each stage run dry (backend/dry, comm/dry) and
// every operation and collective that they would do gets a time from the machine's rates; the schedule
// simulator puts the pieces together; the reduction of gradients and the optimizer's step follow. No rate
// belongs to a model or a layout.
//
// What is left out: variation between GPUs, other jobs on the network, reading data, evaluations,
// checkpoints.
#pragma once

#include <vector>

#include "trireme/plan/machine.hpp"
#include "trireme/plan/run_setup.hpp"
#include "trireme/topology/schedule.hpp"

namespace trireme::plan {

// What a program can do beyond these times: by default what Trireme does, for comparison with published runs
// what theirs did.
struct Software {
    // fused: scores are never stored. stored: they are written and read by products, softmax and dropout
    // (before FlashAttention).
    enum class Attention : std::uint8_t { fused, stored };
    Attention attention = Attention::fused;
    double tensor_hidden = 0;        // share of tensor-parallel communication that runs beside products
    bool overlaps_reduction = false; // of gradients with the backward pass
    bool overlaps_gather = false;    // of parameters with the forward pass
    bool scatters_transfers = false; // tensor ranks send a part each of what they all hold, then gather
};

// Trireme's, with the overlaps that the run asks for.
Software software_of(const RunSetup& setup);

// Where the seconds of a forward or backward pass of a piece go.
struct Seconds {
    double matmul = 0, attention = 0, memory = 0, tensor = 0; // tensor: exposed tensor-parallel communication
    double flops = 0;                                         // of the operations, as executed
    double total() const { return matmul + attention + memory + tensor; }
    Seconds& operator+=(const Seconds& other);
    Seconds times(double factor) const;
};

struct PieceTimes {
    Seconds forward, input_gradient, weight_gradient; // input_gradient holds both unless the schedule halves
    double transfer = 0;                              // to the next piece
};

// One pipeline stage.
struct StageTimes {
    std::vector<PieceTimes> chunks;
    double reduction = 0;        // of gradients over data ranks
    double gather = 0;           // of parameters over data ranks
    double optimizer = 0;        // update, norm, zeroing
    double last_bucket = 1;      // share of reduction and gather that nothing can hide
    double overlap_loss = 0;     // share of reduction and gather beside a pass that this loses
    Seconds micro_batch() const; // forward and backward of all chunks
};

struct Prediction {
    double seconds = 0; // a step
    double bubble = 0;  // share of the pipeline's time that stages idle
    double tokens_per_second_per_gpu = 0;
    double model_flops = 0;          // a step, all GPUs: causal half of attention counted, no recomputation
    double full_attention_flops = 0; // the same with attention counted in full
    double hardware_flops = 0;       // what is executed
    double tflops(double flops, int gpus) const { return flops / seconds / gpus / 1e12; }

    // Of `seconds`, on the stage that computes longest: its micro-batches, waiting in the pipeline, and what
    // of reduction, gathering and optimizer is not hidden.
    int stage = 0;
    Seconds computing;
    double waiting = 0, reduction = 0, gather = 0, optimizer = 0;

    topology::Schedule schedule;
    topology::Timeline timeline;
};

// The times of a stage. Throws Error (usage) for types that the cost model does not know.
StageTimes time_stage(const RunSetup& setup, int stage, const Machine& machine, const Software& software);

Prediction predict(const RunSetup& setup, const Machine& machine, const Software& software = {});
// The same from stage times at hand, [stage].
Prediction predict(const RunSetup& setup, const std::vector<StageTimes>& stages, const Software& software);

// Times of all stages; stages alike are timed once.
std::vector<StageTimes> time_stages(const RunSetup& setup, const Machine& machine, const Software& software);

} // namespace trireme::plan
