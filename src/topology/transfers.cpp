// Completes the compute order of each rank: a send right after the compute that feeds it, the reduction of a
// chunk after its last weight gradient, and each receive as early as the checker's rule lets it be. Let R0,
// R1, ... be the computes of a rank that wait for a message of one direction. The receive of Rj is posted
// just before R(j-1) starts, so that one transfer always runs behind one compute. Where a message closes the
// ring (into stage 0 forwards, into the last stage backwards) and groups are larger than the ring, it comes
// group - p computes before it is due; there the post goes as much further ahead, or senders would run out of
// buffers. No receive is posted before
//   forward:  an input slot is free, i.e. micro-batch m - in_flight - 1 of the chunk (further back where
//   posts go further ahead) is finished;
//   backward: its own forward has run.
#include <algorithm>

#include "schedule_parts.hpp"
#include "trireme/base/error.hpp"

namespace trireme::topology {

namespace {

// Positions of forward(m, c) and of the compute that frees its slot, in one rank's order.
struct Positions {
    std::vector<std::vector<std::size_t>> forward, free; // [chunk][micro_batch]
};

Positions positions_of(const std::vector<Instruction>& order, int micro_batches, int chunks, Passes passes) {
    const std::vector<std::vector<std::size_t>> none(
        static_cast<std::size_t>(chunks), std::vector<std::size_t>(static_cast<std::size_t>(micro_batches)));
    Positions at{none, none};
    for (std::size_t i = 0; i < order.size(); ++i) {
        const auto chunk = static_cast<std::size_t>(order[i].chunk);
        const auto micro_batch = static_cast<std::size_t>(order[i].micro_batch);
        if (order[i].op == Op::forward)
            at.forward[chunk][micro_batch] = i;
        if (finishes(order[i].op, passes))
            at.free[chunk][micro_batch] = i;
    }
    return at;
}

// Largest number of micro-batches of each chunk between the start of forward and the end of the weight
// gradient.
std::vector<int> most_in_flight(const std::vector<Instruction>& order, int chunks, Passes passes) {
    std::vector<int> now(static_cast<std::size_t>(chunks)), most(static_cast<std::size_t>(chunks));
    for (const Instruction& instruction : order) {
        const auto chunk = static_cast<std::size_t>(instruction.chunk);
        if (instruction.op == Op::forward)
            most[chunk] = std::max(most[chunk], ++now[chunk]);
        if (finishes(instruction.op, passes))
            --now[chunk];
    }
    return most;
}

// Largest number of messages into each chunk in one direction between the post of their receive (their use,
// where there is none) and the end of the weight gradient.
std::vector<int> most_held(const std::vector<Instruction>& list, int chunks, Op receive, Passes passes) {
    struct Counts {
        int received = 0, used = 0, finished = 0;
    };
    std::vector<Counts> counts(static_cast<std::size_t>(chunks));
    std::vector<int> most(static_cast<std::size_t>(chunks));
    for (const Instruction& instruction : list) {
        const auto chunk = static_cast<std::size_t>(instruction.chunk);
        Counts& now = counts[chunk];
        const bool is_use = receive == Op::receive_forward ? instruction.op == Op::forward
                                                           : gives_input_gradient(instruction.op);
        now.received += instruction.op == receive ? 1 : 0;
        now.used += is_use ? 1 : 0;
        most[chunk] = std::max(most[chunk], std::max(now.received, now.used) - now.finished);
        now.finished += finishes(instruction.op, passes) ? 1 : 0;
    }
    return most;
}

} // namespace

Schedule with_transfers(ScheduleKind kind, int stages, int micro_batches, int chunks,
                        const ComputeOrder& order, Passes passes, int group) {
    Schedule schedule{kind, stages, micro_batches, chunks, {}, {}, {}, {}};
    for (int s = 0; s < stages; ++s) {
        const std::vector<Instruction>& computes = order.at(static_cast<std::size_t>(s));
        const std::vector<int> in_flight = most_in_flight(computes, chunks, passes);
        const Positions at = positions_of(computes, micro_batches, chunks, passes);

        // posts[i]: the receives to post just before compute i.
        std::vector<std::vector<Instruction>> posts(computes.size());
        const auto post_receives = [&](bool forward) {
            const bool closes_ring = s == (forward ? 0 : stages - 1);
            const auto ahead = static_cast<std::size_t>(closes_ring ? std::max(1, group - stages + 1) : 1);
            std::vector<std::size_t> waiting; // R0, R1, ...
            std::size_t posted = 0;           // where the last receive is posted: they keep their order
            for (std::size_t i = 0; i < computes.size(); ++i) {
                const Instruction& compute = computes[i];
                if ((compute.op == Op::forward) != forward ||
                    !receives(compute.op, {s, compute.chunk}, stages, chunks))
                    continue;
                const auto c = static_cast<std::size_t>(compute.chunk);
                const auto m = static_cast<std::size_t>(compute.micro_batch);
                std::size_t post = waiting.size() >= ahead ? waiting[waiting.size() - ahead]
                                   : ahead == 1 && i > 0   ? i - 1
                                                           : 0;
                if (!forward)
                    post = std::max(post, at.forward[c][m] + 1);
                else if (const auto slots = static_cast<std::size_t>(in_flight[c]) + ahead; m >= slots)
                    post = std::max(post, at.free[c][m - slots] + 1);
                post = std::max(post, posted);
                TRIREME_ASSERT(post <= i, "receive for ", text(compute), " on stage ", s);
                posts[post].push_back({forward ? Op::receive_forward : Op::receive_backward,
                                       compute.micro_batch, compute.chunk});
                waiting.push_back(i);
                posted = post;
            }
        };
        post_receives(true);
        post_receives(false);

        std::vector<Instruction> list;
        for (std::size_t i = 0; i < computes.size(); ++i) {
            const Instruction& compute = computes[i];
            list.insert(list.end(), posts[i].begin(), posts[i].end());
            list.push_back(compute);
            if (sends(compute.op, {s, compute.chunk}, stages, chunks))
                list.push_back({compute.op == Op::forward ? Op::send_forward : Op::send_backward,
                                compute.micro_batch, compute.chunk});
            if (gives_weight_gradient(compute.op) && compute.micro_batch == micro_batches - 1)
                list.push_back({Op::reduce_gradients, -1, compute.chunk});
        }
        schedule.inputs_held.push_back(most_held(list, chunks, Op::receive_forward, passes));
        for (std::size_t c = 0; c < in_flight.size(); ++c)
            schedule.inputs_held.back()[c] = std::max(schedule.inputs_held.back()[c], in_flight[c] + 1);
        schedule.gradients_held.push_back(most_held(list, chunks, Op::receive_backward, passes));
        schedule.ranks.push_back(std::move(list));
        schedule.in_flight.push_back(in_flight);
    }
    return schedule;
}

} // namespace trireme::topology
