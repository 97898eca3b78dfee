// What timers and traces are made of: own times by hand-made spans, and the trace as JSON that others read.
#include "train/recorder.hpp"

#include <gtest/gtest.h>
#include <simdjson.h>

namespace trireme::train {
namespace {

using Kind = comm::ScopeListener::Kind;

// A step of 10 s: forward 1-4 with 1 s of all-reduce inside, backward 4-8, an optimizer step 8-9.5 whose
// all-gather takes 0.5.
std::vector<Span> some_spans() {
    return {{Kind::phase, "forward of micro-batch", "", 0, 1, 4, -1},
            {Kind::communication, "all-reduce", "tensor group", -1, 2, 3, 0},
            {Kind::phase, "backward of micro-batch", "", 0, 4, 8, -1},
            {Kind::phase, "optimizer step", "", -1, 8, 9.5, -1},
            {Kind::communication, "all-gather", "data group", -1, 8.5, 9, 3}};
}

TEST(Recorder, OwnTimesLeaveOutWhatLiesInsideAndAddUpToTheStep) {
    const std::map<std::string, double> expected{{"forward", 2},   {"tensor group", 1}, {"backward", 4},
                                                 {"optimizer", 1}, {"data group", 0.5}, {"other", 1.5}};
    EXPECT_EQ(own_times(some_spans(), 10, TimingDetail::kinds), expected);
    const std::map<std::string, double> phases{
        {"forward of micro-batch", 2}, {"all-reduce of the tensor group", 1}, {"backward of micro-batch", 4},
        {"optimizer step", 1},         {"all-gather of the data group", 0.5}, {"other", 1.5}};
    EXPECT_EQ(own_times(some_spans(), 10, TimingDetail::phases), phases);
}

TEST(Recorder, TheLineShowsMeanShareAndTheSlowestRank) {
    EXPECT_EQ(format_timing({{{"forward", 0.2}, {"other", 0.2}}}, {"a"}, 2),
              " timing (ms a step and share): forward 100.0 50.0 % | other 100.0 50.0 % |");
    EXPECT_EQ(
        format_timing({{{"forward", 0.3}, {"other", 0.1}}, {{"forward", 0.5}, {"other", 0.1}}}, {"a", "b"},
                      1),
        " timing (ms a step and share, mean of ranks; the slowest): forward 400.0 80.0 % (500.0, rank 1 "
        "on b) | other 100.0 20.0 % (100.0, rank 0 on a) |");
}

TEST(Recorder, TraceEventsAreJson) {
    const std::string text = "[" + trace_events(some_spans(), 10, 5e6, 3, 17) + "]";
    simdjson::dom::parser parser;
    simdjson::dom::array events = parser.parse(text);
    ASSERT_EQ(events.size(), 6u);
    const simdjson::dom::element all = events.at(0), reduce = events.at(2);
    EXPECT_EQ(std::string_view(all["name"]), "iteration 17");
    EXPECT_EQ(double(all["dur"]), 10e6);
    EXPECT_EQ(std::string_view(reduce["name"]), "all-reduce of the tensor group");
    EXPECT_EQ(std::string_view(reduce["cat"]), "communication");
    EXPECT_EQ(double(reduce["ts"]), 7e6);
    EXPECT_EQ(double(reduce["dur"]), 1e6);
    EXPECT_EQ(std::int64_t(reduce["pid"]), 3);
}

// The real thing on a CPU: spans begin and end in order, nested ones within their outer ones.
TEST(Recorder, ListensToPhases) {
    const auto cpu = backend::make_cpu_backend(1);
    Recorder recorder({.sums = true, .traced_steps = 1}, *cpu, 0);
    for (std::int64_t step = 1; step <= 3; ++step) {
        recorder.begin_step(step);
        {
            const comm::PhaseScope forward("forward of micro-batch", 2);
            const comm::TransferScope inner("all-gather", "tensor group");
        }
        recorder.end_step();
        EXPECT_EQ(recorder.trace_complete(), step == 3); // two steps warm up
    }
}

} // namespace
} // namespace trireme::train
