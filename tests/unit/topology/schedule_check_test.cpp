// The checker must refuse every planted fault. Faults are planted everywhere in several schedules: each
// instruction left out, doubled, renumbered, each bound lowered, pairs swapped; and by hand those that only
// the replay can find.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

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
    for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b})
        for (const int stages : {1, 2, 3, 4})
            for (const int micro_batches : {1, 2, 5})
                schedules.push_back(make_schedule(kind, stages, micro_batches, 1));
    return schedules;
}

std::string where(const Schedule& schedule, std::size_t stage, std::size_t i) {
    return concat(name(schedule.kind), ", ", schedule.stages, " stages, ", schedule.micro_batches,
                  " micro-batches, stage ", stage, ", instruction ", i);
}

// Applies fault(list, i) at each instruction of each stage and expects a complaint.
template <class Fault>
void expect_refused_everywhere(const Fault& fault) {
    std::size_t planted = 0;
    for (const Schedule& good : samples())
        for (std::size_t s = 0; s < good.ranks.size(); ++s)
            for (std::size_t i = 0; i < good.ranks[s].size(); ++i) {
                Schedule bad = good;
                if (!fault(bad, bad.ranks[s], i))
                    continue;
                ++planted;
                EXPECT_FALSE(complaint(bad).empty()) << where(good, s, i);
            }
    EXPECT_GT(planted, 100u);
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
            if (list[j].op == list[i].op) {
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
        const bool is_own_backward =
            a.op == Op::forward && b.op == Op::backward && a.micro_batch == b.micro_batch;
        const bool is_reduction = a.op == Op::backward && b.op == Op::reduce_gradients;
        if (!is_send && !is_own_backward && !is_reduction)
            return false;
        std::swap(list[i], list[i + 1]);
        return true;
    });
}

TEST(Check, RefusesTooSmallABound) {
    for (const Schedule& good : samples())
        for (std::size_t s = 0; s < good.ranks.size(); ++s) {
            Schedule bad = good;
            --bad.in_flight[s][0];
            EXPECT_FALSE(complaint(bad).empty()) << where(good, s, 0);
        }
}

TEST(Check, RefusesReceivesPostedTooFarAhead) {
    Schedule bad = make_schedule(ScheduleKind::gpipe, 2, 4, 1);
    List& list = bad.ranks[1];
    const auto third = std::find(list.begin(), list.end(), Instruction{Op::receive_forward, 2, 0});
    list.erase(third);
    list.insert(list.begin() + 2, {Op::receive_forward, 2, 0});
    EXPECT_NE(complaint(bad).find("more than one receive posted ahead"), std::string::npos) << complaint(bad);
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
