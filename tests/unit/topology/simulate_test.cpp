// The simulator against a longest path found otherwise: the whole schedule as one graph of constraints "later
// >= earlier + seconds", relaxed until nothing changes (Bellman and Ford), with uneven random costs.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <tuple>

#include "trireme/base/error.hpp"
#include "trireme/topology/schedule.hpp"

namespace trireme::topology {
namespace {

using Costs = std::vector<std::vector<PieceCost>>;

struct Constraint {
    std::size_t earlier, later;
    double seconds;
};

// Start times of every instruction of every rank, [stage][position].
std::vector<std::vector<double>> longest_path(const Schedule& schedule, const Costs& costs) {
    const int p = schedule.stages;
    std::size_t nodes = 0;
    std::vector<std::vector<std::size_t>> start(static_cast<std::size_t>(p)); // node of each instruction
    // (is backward, sending stage, micro-batch, sender's chunk) -> what touches that message.
    using Message = std::tuple<bool, int, int, int>;
    std::map<Message, std::size_t> send, receive, producer, consumer, arrival;
    std::map<std::pair<bool, int>, std::vector<Message>> sent_in_order;
    std::vector<Constraint> constraints;

    for (int s = 0; s < p; ++s) {
        const auto& list = schedule.ranks[static_cast<std::size_t>(s)];
        double before = 0;
        for (std::size_t i = 0; i < list.size(); ++i) {
            const auto [op, m, c] = list[i];
            const std::size_t node = nodes++;
            if (i > 0)
                constraints.push_back({node - 1, node, before});
            start[static_cast<std::size_t>(s)].push_back(node);
            const PieceCost& cost = costs[static_cast<std::size_t>(s)][static_cast<std::size_t>(c)];
            before = op == Op::forward           ? cost.forward
                     : op == Op::backward        ? cost.input_gradient + cost.weight_gradient
                     : op == Op::input_gradient  ? cost.input_gradient
                     : op == Op::weight_gradient ? cost.weight_gradient
                                                 : 0.0;
            const bool is_gradient = op == Op::backward || op == Op::input_gradient;
            // Global piece number g = c * p + s; forward goes from g to g + 1, backward from g to g - 1.
            const int piece = c * p + s;
            const auto message_from = [&](bool backward, int from) {
                return Message{backward, from % p, m, from / p};
            };
            if (op == Op::send_forward || op == Op::send_backward) {
                const Message message = message_from(op == Op::send_backward, piece);
                send[message] = node;
                sent_in_order[{op == Op::send_backward, s}].push_back(message);
            }
            if (op == Op::receive_forward)
                receive[message_from(false, piece - 1)] = node;
            if (op == Op::receive_backward)
                receive[message_from(true, piece + 1)] = node;
            if (op == Op::forward) {
                producer[message_from(false, piece)] = node;
                if (piece > 0)
                    consumer[message_from(false, piece - 1)] = node;
            }
            if (is_gradient) {
                producer[message_from(true, piece)] = node;
                consumer[message_from(true, piece + 1)] = node;
            }
        }
    }
    for (const auto& [message, node] : send)
        arrival[message] = nodes++;
    for (const auto& [channel, messages] : sent_in_order)
        for (std::size_t k = 0; k < messages.size(); ++k) {
            const auto& [backward, from, m, chunk] = messages[k];
            const double transfer =
                costs[static_cast<std::size_t>(from)][static_cast<std::size_t>(chunk)].transfer;
            const std::size_t there = arrival.at(messages[k]);
            constraints.push_back({send.at(messages[k]), there, transfer});
            constraints.push_back({receive.at(messages[k]), there, transfer});
            if (k > 0)
                constraints.push_back({arrival.at(messages[k - 1]), there, transfer});
            constraints.push_back({there, consumer.at(messages[k]), 0});
            if (k >= 2) // two send buffers
                constraints.push_back({arrival.at(messages[k - 2]), producer.at(messages[k]), 0});
        }

    std::vector<double> time(nodes, 0);
    std::size_t rounds = 0;
    for (bool changed = true; changed; ++rounds) {
        EXPECT_LE(rounds, nodes) << "a circle";
        changed = false;
        for (const auto& [earlier, later, seconds] : constraints)
            if (time[earlier] + seconds > time[later]) {
                time[later] = time[earlier] + seconds;
                changed = true;
            }
    }
    std::vector<std::vector<double>> result(start.size());
    for (std::size_t s = 0; s < start.size(); ++s)
        for (const std::size_t node : start[s])
            result[s].push_back(time[node]);
    return result;
}

void expect_longest_path(const Schedule& schedule, const Costs& costs) {
    const Timeline timeline = simulate(schedule, costs);
    const auto expected = longest_path(schedule, costs);
    double busy = 0, seconds = 0;
    for (std::size_t s = 0; s < schedule.ranks.size(); ++s) {
        std::size_t compute = 0;
        for (std::size_t i = 0; i < schedule.ranks[s].size(); ++i) {
            if (compute == timeline.ranks[s].size() ||
                !(timeline.ranks[s][compute].instruction == schedule.ranks[s][i]))
                continue;
            const TimedInstruction& timed = timeline.ranks[s][compute++];
            // The same sums and maxima in another order of evaluation: each path is summed from its beginning
            // in both.
            ASSERT_EQ(timed.start, expected[s][i]) << "stage " << s << " instruction " << i;
            busy += timed.end - timed.start;
            seconds = std::max(seconds, timed.end);
        }
        ASSERT_EQ(compute, timeline.ranks[s].size());
    }
    EXPECT_EQ(timeline.seconds, seconds);
    EXPECT_LE(std::abs(timeline.bubble - (1 - busy / (schedule.stages * seconds))), 1e-14);
}

TEST(Simulate, IsTheLongestPathForUnevenCosts) {
    std::mt19937 random(7);
    // Multiples of 1/64, so that every sum is exact.
    const auto draw = [&](int most) {
        return static_cast<double>(random() % static_cast<unsigned>(64 * most)) / 64;
    };
    const auto expect_for = [&](const Schedule& schedule) {
        for (const int slowest_transfer : {0, 1, 4}) {
            Costs costs(static_cast<std::size_t>(schedule.stages));
            for (auto& stage : costs)
                for (int c = 0; c < schedule.chunks; ++c)
                    stage.push_back(
                        {draw(4), draw(4), draw(4), slowest_transfer > 0 ? draw(slowest_transfer) : 0});
            SCOPED_TRACE(concat(name(schedule.kind), " ", schedule.stages, " stages ", schedule.micro_batches,
                                " micro-batches ", schedule.chunks, " chunks transfer ", slowest_transfer));
            expect_longest_path(schedule, costs);
        }
    };
    for (const int stages : {1, 2, 3, 4, 7})
        for (const int micro_batches : {1, 2, 3, 5, 8, 13}) {
            for (const ScheduleKind kind :
                 {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zb_h1})
                expect_for(make_schedule(kind, stages, micro_batches, 1));
            if (stages > 1)
                for (const int chunks : {2, 3})
                    expect_for(make_schedule(ScheduleKind::interleaved, stages, micro_batches, chunks));
        }
}

// Two stages, transfers of half a forward, worked by hand: F0 [0,1] arrives 1.5; stage 1 runs F0 [1.5,2.5],
// B0 [2.5,4.5]; its gradient arrives at 5 while stage 0 has run F1 [1,2]; B0 [5,7]; F1 there [4.5,5.5], B1
// [5.5,7.5], back at 8; B1 [8,10].
TEST(Simulate, WorkedExampleWithTransfers) {
    const Schedule schedule = make_schedule(ScheduleKind::one_f_one_b, 2, 2, 1);
    const Timeline timeline = simulate(schedule, Costs(2, {PieceCost{1, 1, 1, 0.5}}));
    const auto start = [&](std::size_t stage, std::size_t i) { return timeline.ranks.at(stage).at(i).start; };
    EXPECT_EQ(start(0, 0), 0);
    EXPECT_EQ(start(0, 1), 1);
    EXPECT_EQ(start(0, 2), 5);
    EXPECT_EQ(start(0, 3), 8);
    EXPECT_EQ(start(1, 0), 1.5);
    EXPECT_EQ(start(1, 1), 2.5);
    EXPECT_EQ(start(1, 2), 4.5);
    EXPECT_EQ(start(1, 3), 5.5);
    EXPECT_EQ(timeline.seconds, 10);
    EXPECT_EQ(timeline.bubble, 1 - 12.0 / 20.0);
}

TEST(Simulate, CostsOfTheWrongShapeAreOurBug) {
    const Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 2, 1);
    EXPECT_THROW(simulate(schedule, Costs(1, {PieceCost{}})), Error);
    EXPECT_THROW(simulate(schedule, Costs(2)), Error);
}

} // namespace
} // namespace trireme::topology
