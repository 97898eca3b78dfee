// The checker must refuse every planted fault. Faults are planted everywhere in several schedules: each
// instruction left out, doubled, renumbered, each bound lowered, pairs swapped; and by hand those that only
// the replay can find.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "trireme/base/error.hpp"
#include "trireme/topology/schedule.hpp"

namespace trireme::topology {
namespace {

// What check() says; empty if it accepts.
std::string complaint(const Schedule& schedule) {
    try {
        check(schedule);
    } catch (const Error& error) {
        EXPECT_EQ(error.category(), ErrorCategory::internal);
        return error.message();
    }
    return {};
}

std::vector<Schedule> samples() {
    std::vector<Schedule> schedules;
    for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zb_h1})
        for (const int stages : {1, 2, 3, 4})
            for (const int micro_batches : {1, 2, 5})
                schedules.push_back(make_schedule(kind, stages, micro_batches, 1));
    // Fewer micro-batches than stages, a multiple, one group larger than the ring, uneven groups.
    for (const auto [stages, micro_batches, chunks] :
         {std::array{1, 2, 2}, {2, 1, 3}, {2, 4, 2}, {3, 2, 2}, {3, 5, 2}, {3, 7, 3}})
        schedules.push_back(make_schedule(ScheduleKind::interleaved, stages, micro_batches, chunks));
    return schedules;
}

std::string where(const Schedule& schedule, std::size_t stage, std::size_t i) {
    return concat(name(schedule.kind), ", ", schedule.stages, " stages, ", schedule.micro_batches,
                  " micro-batches, ", schedule.chunks, " chunks, stage ", stage, ", instruction ", i);
}

// Applies fault(list, i) at each instruction of each stage and expects a complaint. The fault must have been
// planted in every kind of schedule.
template <class Fault>
void expect_refused_everywhere(const Fault& fault) {
    std::size_t planted = 0;
    std::set<ScheduleKind> kinds;
    for (const Schedule& good : samples())
        for (std::size_t s = 0; s < good.ranks.size(); ++s)
            for (std::size_t i = 0; i < good.ranks[s].size(); ++i) {
                Schedule bad = good;
                if (!fault(bad, bad.ranks[s], i))
                    continue;
                ++planted;
                kinds.insert(good.kind);
                EXPECT_FALSE(complaint(bad).empty()) << where(good, s, i);
            }
    EXPECT_GT(planted, 100u);
    EXPECT_EQ(kinds.size(), 4u);
}

using List = std::vector<Instruction>;

TEST(Check, RefusesEachInstructionLeftOut) {
    expect_refused_everywhere([](Schedule&, List& list, std::size_t i) {
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
        return true;
    });
}

TEST(Check, RefusesEachInstructionDoubled) {
    expect_refused_everywhere([](Schedule&, List& list, std::size_t i) {
        list.insert(list.begin() + static_cast<std::ptrdiff_t>(i), Instruction{list[i]});
        return true;
    });
}

TEST(Check, RefusesEachInstructionRenumbered) {
    for (const int offset : {-1, 1})
        expect_refused_everywhere([&](Schedule&, List& list, std::size_t i) {
            list[i].micro_batch += offset;
            return true;
        });
    expect_refused_everywhere([](Schedule&, List& list, std::size_t i) {
        ++list[i].chunk;
        return true;
    });
}

TEST(Check, RefusesTwoMicroBatchesSwapped) {
    expect_refused_everywhere([](Schedule&, List& list, std::size_t i) {
        for (std::size_t j = i + 1; j < list.size(); ++j)
            if (list[j].op == list[i].op && list[j].chunk == list[i].chunk) {
                std::swap(list[i], list[j]);
                return true;
            }
        return false;
    });
}

// A neighbouring swap is harmless when a receive is posted a little earlier or later, or two independent
// computes change places; it must be refused when data flow is broken.
TEST(Check, RefusesComputesBeforeTheirInputsAndSendsBeforeTheirComputes) {
    expect_refused_everywhere([](Schedule&, List& list, std::size_t i) {
        if (i + 1 == list.size())
            return false;
        const Instruction a = list[i], b = list[i + 1];
        const bool is_send = b.op == Op::send_forward || b.op == Op::send_backward;
        const bool is_own_backward = a.op == Op::forward &&
                                     (b.op == Op::backward || b.op == Op::input_gradient) &&
                                     a.micro_batch == b.micro_batch && a.chunk == b.chunk;
        const bool is_reduction =
            (a.op == Op::backward || a.op == Op::weight_gradient) && b.op == Op::reduce_gradients;
        if (!is_send && !is_own_backward && !is_reduction)
            return false;
        std::swap(list[i], list[i + 1]);
        return true;
    });
}

// So the generators promise no slot of activations or gradients that they do not need.
TEST(Check, RefusesTooSmallABound) {
    for (const Schedule& good : samples())
        for (std::size_t s = 0; s < good.ranks.size(); ++s)
            for (std::size_t c = 0; c < good.in_flight[s].size(); ++c) {
                Schedule bad = good;
                --bad.in_flight[s][c];
                EXPECT_NE(complaint(bad).find("no activation slot is free"), std::string::npos)
                    << where(good, s, c);
                bad = good;
                --bad.gradients_held[s][c];
                EXPECT_NE(complaint(bad).find("no gradient slot is free"), std::string::npos)
                    << where(good, s, c);
            }
}

TEST(Check, RefusesMissingBounds) {
    for (const auto bounds : {&Schedule::in_flight, &Schedule::inputs_held, &Schedule::gradients_held}) {
        Schedule bad = make_schedule(ScheduleKind::interleaved, 2, 4, 2);
        (bad.*bounds)[1].pop_back();
        EXPECT_FALSE(complaint(bad).empty());
        (bad.*bounds).pop_back();
        EXPECT_FALSE(complaint(bad).empty());
    }
}

TEST(Check, RefusesAReceiveWithoutAFreeSlot) {
    // Bound 1, so two input slots: with the third receive posted before the first backward, three would be
    // needed.
    Schedule bad = make_schedule(ScheduleKind::one_f_one_b, 2, 4, 1);
    List& list = bad.ranks[1];
    list.erase(std::find(list.begin(), list.end(), Instruction{Op::receive_forward, 2, 0}));
    list.insert(std::find(list.begin(), list.end(), Instruction{Op::backward, 0, 0}),
                {Op::receive_forward, 2, 0});
    EXPECT_NE(complaint(bad).find("no input slot is free"), std::string::npos) << complaint(bad);
}

// A gradient slot is free once the weight gradient is done, not the input gradient.
TEST(Check, RefusesAGradientReceiveIntoASlotThatAWeightGradientNeeds) {
    Schedule bad = make_schedule(ScheduleKind::zb_h1, 3, 4, 1);
    ASSERT_EQ(bad.gradients_held[0], std::vector{2});
    List& list = bad.ranks[0];
    list.erase(std::find(list.begin(), list.end(), Instruction{Op::receive_backward, 2, 0}));
    list.insert(std::find(list.begin(), list.end(), Instruction{Op::weight_gradient, 0, 0}),
                {Op::receive_backward, 2, 0});
    EXPECT_NE(complaint(bad).find("no gradient slot is free"), std::string::npos) << complaint(bad);
}

// The rule for groups larger than the ring: were their receives posted one ahead as elsewhere, senders would
// run out of buffers. 8 stages, 23 micro-batches go in groups of 12 and 11: the first come around 4 computes
// before they are due.
TEST(Check, FindsTheDeadlockOfReceivesPostedTooLate) {
    const Schedule good = make_schedule(ScheduleKind::interleaved, 8, 23, 2);
    ASSERT_EQ(complaint(good), "");
    Schedule bad = good;
    for (const auto& [stage, receive, compute] :
         {std::tuple{std::size_t{0}, Op::receive_forward, Op::forward},
          std::tuple{std::size_t{7}, Op::receive_backward, Op::backward}}) {
        List posts, rest, late;
        for (const Instruction& instruction : good.ranks[stage])
            (instruction.op == receive ? posts : rest).push_back(instruction);
        std::size_t next = 0;
        for (const Instruction& instruction : rest) {
            if (next < posts.size() &&
                instruction == Instruction{compute, posts[next].micro_batch, posts[next].chunk})
                late.push_back(posts[next++]);
            late.push_back(instruction);
        }
        bad.ranks[stage] = late;
    }
    const std::string said = complaint(bad);
    EXPECT_NE(said.find("it deadlocks"), std::string::npos) << said;
    EXPECT_NE(said.find("for a send buffer"), std::string::npos) << said;
}

// Megatron's rule with what is left over as a small last group: 4 stages, 5 micro-batches, 3 chunks. Every
// list is in order by itself.
TEST(Check, FindsTheDeadlockOfASmallLastGroup) {
    constexpr int kStages = 4, kMicroBatches = 5, kChunks = 3;
    Schedule bad = make_schedule(ScheduleKind::interleaved, kStages, kMicroBatches, kChunks);
    bad.in_flight.assign(kStages, std::vector(kChunks, kMicroBatches));
    bad.inputs_held = bad.gradients_held = bad.in_flight;
    List forwards, backwards;
    for (const auto& [first, end] : {std::pair{0, 4}, std::pair{4, 5}})
        for (int c = 0; c < kChunks; ++c)
            for (int m = first; m < end; ++m) {
                forwards.push_back({Op::forward, m, c});
                backwards.push_back({Op::backward, m, kChunks - 1 - c});
            }
    for (int s = 0; s < kStages; ++s) {
        const auto warm_up = static_cast<std::size_t>(2 * (kStages - s - 1) + (kChunks - 1) * kStages);
        List computes(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(warm_up));
        for (std::size_t k = 0; k < backwards.size(); ++k) {
            if (k + warm_up < forwards.size())
                computes.push_back(forwards[k + warm_up]);
            computes.push_back(backwards[k]);
        }
        // Receives as early as their slots (one a micro-batch) let them be: forwards all at once, backwards
        // after their forwards, each direction in the order of its computes.
        List list;
        for (const Instruction& forward : forwards)
            if (s > 0 || forward.chunk > 0)
                list.push_back({Op::receive_forward, forward.micro_batch, forward.chunk});
        std::size_t posted = 0, ran = 0;
        for (const Instruction& compute : computes) {
            list.push_back(compute);
            const bool is_forward = compute.op == Op::forward;
            if (is_forward ? s + 1 < kStages || compute.chunk + 1 < kChunks : s > 0 || compute.chunk > 0)
                list.push_back(
                    {is_forward ? Op::send_forward : Op::send_backward, compute.micro_batch, compute.chunk});
            ran += is_forward ? 1 : 0;
            if (!is_forward && compute.micro_batch == kMicroBatches - 1)
                list.push_back({Op::reduce_gradients, -1, compute.chunk});
            const auto has_run = [&](const Instruction& backward) {
                const auto end = forwards.begin() + static_cast<std::ptrdiff_t>(ran);
                return std::find(forwards.begin(), end,
                                 Instruction{Op::forward, backward.micro_batch, backward.chunk}) != end;
            };
            for (; posted < backwards.size() && has_run(backwards[posted]); ++posted)
                if (s + 1 < kStages || backwards[posted].chunk + 1 < kChunks)
                    list.push_back(
                        {Op::receive_backward, backwards[posted].micro_batch, backwards[posted].chunk});
        }
        bad.ranks[static_cast<std::size_t>(s)] = list;
    }
    const std::string said = complaint(bad);
    EXPECT_NE(said.find("it deadlocks"), std::string::npos) << said;
}

TEST(Check, RefusesABackwardReceiveBeforeItsForward) {
    Schedule bad = make_schedule(ScheduleKind::one_f_one_b, 2, 4, 1);
    List& list = bad.ranks[0];
    list.erase(std::find(list.begin(), list.end(), Instruction{Op::receive_backward, 0, 0}));
    list.insert(list.begin(), {Op::receive_backward, 0, 0});
    EXPECT_NE(complaint(bad).find("comes before its forward"), std::string::npos) << complaint(bad);
}

TEST(Check, RefusesAMissingRank) {
    Schedule bad = make_schedule(ScheduleKind::one_f_one_b, 3, 4, 1);
    bad.ranks.pop_back();
    EXPECT_FALSE(complaint(bad).empty());
}

TEST(Check, RefusesWholeAndHalvedBackwardsMixed) {
    Schedule bad = make_schedule(ScheduleKind::one_f_one_b, 1, 2, 1);
    List& list = bad.ranks[0];
    const auto second = std::find(list.begin(), list.end(), Instruction{Op::backward, 1, 0});
    *second = {Op::input_gradient, 1, 0};
    list.insert(second + 1, {Op::weight_gradient, 1, 0});
    EXPECT_NE(complaint(bad).find("both whole and halved backwards"), std::string::npos) << complaint(bad);
}

TEST(Check, AcceptsHalvedBackwards) {
    Schedule schedule = make_schedule(ScheduleKind::one_f_one_b, 1, 1, 1);
    schedule.ranks[0] = {{Op::forward, 0, 0},
                         {Op::input_gradient, 0, 0},
                         {Op::weight_gradient, 0, 0},
                         {Op::reduce_gradients, -1, 0}};
    EXPECT_EQ(complaint(schedule), "");
    std::swap(schedule.ranks[0][1], schedule.ranks[0][2]);
    EXPECT_FALSE(complaint(schedule).empty());
}

// Each list is in order by itself and the channels match, but stage 0 wants gradient 0 before it sends
// micro-batch 1, and stage 1 computes forward 1 before backward 0.
TEST(Check, FindsADeadlockThatNoListShowsAlone) {
    Schedule bad = make_schedule(ScheduleKind::gpipe, 2, 2, 1);
    bad.ranks[0] = {{Op::forward, 0, 0},          {Op::send_forward, 0, 0}, {Op::receive_backward, 0, 0},
                    {Op::backward, 0, 0},         {Op::forward, 1, 0},      {Op::send_forward, 1, 0},
                    {Op::receive_backward, 1, 0}, {Op::backward, 1, 0},     {Op::reduce_gradients, -1, 0}};
    const std::string said = complaint(bad);
    EXPECT_NE(said.find("it deadlocks"), std::string::npos) << said;
    EXPECT_NE(
        said.find(
            "stage 0 waits before its instruction 3, backward of micro-batch 0, chunk 0, for its input"),
        std::string::npos)
        << said;
    EXPECT_NE(said.find("stage 1 waits before its instruction"), std::string::npos) << said;
    EXPECT_THROW(simulate(bad, {2, {PieceCost{}}}), Error);
}

// Send buffers count: stage 0 forwards four micro-batches before it takes gradients, stage 1 posts no receive
// of the second micro-batch before the first gradient is through. Four sends need at least as many buffers
// less those received.
TEST(Check, FindsADeadlockOfSendBuffers) {
    Schedule bad = make_schedule(ScheduleKind::gpipe, 2, 4, 1);
    List late;
    for (int m = 0; m < 4; ++m)
        for (const Op op : {Op::receive_forward, Op::forward, Op::backward, Op::send_backward})
            late.push_back({op, m, 0});
    late.push_back({Op::reduce_gradients, -1, 0});
    bad.ranks[1] = late;
    EXPECT_EQ(complaint(bad),
              ""); // stage 1 sends gradients 0 and 1 without waiting: their receives are posted in time

    // Posted only after the last forward, they are not: gradient 2 finds no buffer, so forward 3 is never
    // received.
    List& list = bad.ranks[0];
    list.clear();
    for (int m = 0; m < 4; ++m)
        for (const Op op : {Op::forward, Op::send_forward})
            list.push_back({op, m, 0});
    for (int m = 0; m < 4; ++m)
        for (const Op op : {Op::receive_backward, Op::backward})
            list.push_back({op, m, 0});
    list.push_back({Op::reduce_gradients, -1, 0});
    EXPECT_EQ(complaint(bad), ""); // four micro-batches just fit: two in buffers of either side

    const auto lengthen = [](Schedule& schedule) {
        schedule.micro_batches = 6;
        schedule.in_flight = {{6}, {1}};
        schedule.inputs_held = {{7}, {2}};
        schedule.gradients_held = {{1}, {1}};
        schedule.ranks.assign(2, {});
        for (int m = 0; m < 6; ++m)
            for (const Op op : {Op::forward, Op::send_forward})
                schedule.ranks[0].push_back({op, m, 0});
        for (int m = 0; m < 6; ++m) {
            for (const Op op : {Op::receive_backward, Op::backward})
                schedule.ranks[0].push_back({op, m, 0});
            for (const Op op : {Op::receive_forward, Op::forward, Op::backward, Op::send_backward})
                schedule.ranks[1].push_back({op, m, 0});
        }
        for (List& rank : schedule.ranks)
            rank.push_back({Op::reduce_gradients, -1, 0});
    };
    lengthen(bad);
    const std::string said = complaint(bad);
    EXPECT_NE(said.find("it deadlocks"), std::string::npos) << said;
    EXPECT_NE(said.find("for a send buffer"), std::string::npos) << said;
}

} // namespace
} // namespace trireme::topology
