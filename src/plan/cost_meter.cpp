// The formulas of the cost model.
#include "plan/cost_meter.hpp"

#include <algorithm>
#include <utility>

#include "trireme/base/error.hpp"

namespace trireme::plan {

using backend::Work;
using backend::WorkKind;
using comm::Transfer;

namespace {

constexpr double kTera = 1e12, kGiga = 1e9, kMicro = 1e-6;

} // namespace

void CostMeter::work(const Work& work) {
    Seconds& at = reading_.seconds;
    at.flops += work.flops;
    const double moving = work.bytes / (machine_.memory_gb_per_s * kGiga),
                 kernel = machine_.kernel_us * kMicro;
    switch (work.kind) {
    case WorkKind::matmul: {
        const double rate = size_bytes(work.type) == 2 ? machine_.matmul_tflops : machine_.matmul_fp32_tflops;
        at.matmul += work.flops / (rate * kTera) + moving + kernel;
        break;
    }
    case WorkKind::attention_forward:
    case WorkKind::attention_gradient: {
        if (software_.attention == Software::Attention::stored) {
            at.attention += stored_attention(work);
            break;
        }
        const bool forward = work.kind == WorkKind::attention_forward;
        // fp32 kernels lose as much against bf16's as their products do.
        const double type =
            size_bytes(work.type) == 2 ? 1 : machine_.matmul_fp32_tflops / machine_.matmul_tflops;
        const double rate =
            (forward ? machine_.attention_forward_tflops : machine_.attention_gradient_tflops) * type *
            work.length / (work.length + machine_.attention_half_length) * work.head_dim /
            (work.head_dim + machine_.attention_half_head);
        at.attention += work.flops / (rate * kTera) + kernel;
        break;
    }
    case WorkKind::memory:
        at.memory += moving + kernel;
        break;
    }
}

// Two products forward, four backward, on whole squares of scores. Passes over the scores, in units of their
// bytes, forward: the product writes them, softmax reads and writes, dropout reads, writes and keeps a mask
// of half the bytes, the second product reads: 6.5. Backward: the gradient of the weights is written,
// dropout's gradient reads, writes and reads the mask, softmax's reads two and writes one, three products
// read: 9.5.
double CostMeter::stored_attention(const Work& work) const {
    const bool forward = work.kind == WorkKind::attention_forward;
    const double products = forward ? 2 : 4, passes = forward ? 6.5 : 9.5, kernels = forward ? 4 : 6;
    const double bytes = work.bytes + passes * work.scores * static_cast<double>(size_bytes(work.type));
    return products * 2 * work.scores * work.head_dim / (machine_.matmul_tflops * kTera) +
           bytes / (machine_.memory_gb_per_s * kGiga) + kernels * machine_.kernel_us * kMicro;
}

// A ring passes every member once: inside a node over NVLink, else it enters each node by as many adapters as
// it has members there.
double CostMeter::bandwidth(const std::vector<int>& world_ranks, int world_rank) const {
    const auto here = std::ranges::count_if(world_ranks, [&](int r) { return node(r) == node(world_rank); });
    if (here == static_cast<std::ptrdiff_t>(world_ranks.size()))
        return machine_.nvlink_gb_per_s * kGiga;
    return std::min(machine_.nvlink_gb_per_s, machine_.network_gb_per_s * static_cast<double>(here)) * kGiga;
}

// What moves bytes takes multiprocessors in proportion to their rate.
double CostMeter::overlap_loss(const comm::Communicator& group) const {
    const std::vector<int>& members = group.world_ranks();
    return machine_.overlap_loss * bandwidth(members, members[static_cast<std::size_t>(group.rank())]) /
           (machine_.nvlink_gb_per_s * kGiga);
}

double CostMeter::latency(const std::vector<int>& world_ranks) const {
    const bool inside = node(world_ranks.front()) == node(world_ranks.back());
    return (inside ? machine_.nvlink_us : machine_.network_us) * kMicro;
}

void CostMeter::traffic(const comm::Communicator& group, Transfer kind, std::int64_t bytes) {
    if (kind == Transfer::send)
        return; // the simulator's part
    const std::vector<int>& members = group.world_ranks();
    const auto ranks = static_cast<double>(members.size());
    const double passes = (kind == Transfer::all_reduce ? 2 : 1) * (ranks - 1) / ranks;
    const double seconds = passes * static_cast<double>(bytes) /
                               bandwidth(members, members[static_cast<std::size_t>(group.rank())]) +
                           latency(members);
    if (group.name() == "tensor group")
        reading_.seconds.tensor += seconds * (1 - software_.tensor_hidden);
    else if (group.name() == "data group" && kind == Transfer::all_gather)
        reading_.gather += seconds;
    else if (group.name() == "data group" && bytes > 8) // the norm's partial sum is one fp64
        reading_.reduction += seconds;
    else
        reading_.other += seconds;
}

CostMeter::Reading CostMeter::take() {
    return std::exchange(reading_, {});
}

double CostMeter::transfer_seconds(const topology::Grid& grid, const topology::Coordinates& from,
                                   double bytes) const {
    topology::Coordinates to = from;
    to.pipeline = (from.pipeline + 1) % grid.pipeline;
    const bool inside = node(grid.rank(from)) == node(grid.rank(to));
    const double link = (inside ? machine_.nvlink_gb_per_s : machine_.network_gb_per_s) * kGiga;
    const double wait = (inside ? machine_.nvlink_us : machine_.network_us) * kMicro;
    if (!software_.scatters_transfers || grid.tensor == 1)
        return bytes / link + wait;
    const double parts = grid.tensor;
    return bytes / parts / link + wait + bytes * (parts - 1) / parts / (machine_.nvlink_gb_per_s * kGiga) +
           machine_.nvlink_us * kMicro;
}

} // namespace trireme::plan
