// The chart must be well-formed XML, show every compute once, where and as long as it runs, with its number,
// and name every colour and the unit of time.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <regex>
#include <set>

#include "trireme/base/error.hpp"
#include "trireme/topology/schedule.hpp"

namespace trireme::topology {
namespace {

struct Chart {
    Schedule schedule;
    Timeline timeline;
    std::string svg;
};

Chart chart_of(ScheduleKind kind, int stages, int micro_batches, int chunks, const PieceCost& cost) {
    Schedule schedule = make_schedule(kind, stages, micro_batches, chunks);
    Timeline timeline = simulate(schedule, std::vector(static_cast<std::size_t>(stages),
                                                       std::vector(static_cast<std::size_t>(chunks), cost)));
    std::string svg = draw_svg(schedule, timeline);
    return {std::move(schedule), std::move(timeline), std::move(svg)};
}

// Where tags do not match; empty if they all do.
std::string first_unmatched_tag(const std::string& xml) {
    static const std::regex tag("<(/?)([a-z]+)((?: [a-zA-Z0-9-]+=\"[^\"<>]*\")*)(/?)>");
    std::vector<std::string> open;
    std::string::const_iterator at = xml.begin();
    for (std::sregex_iterator i(xml.begin(), xml.end(), tag), end; i != end; ++i) {
        const std::string between(at, i->prefix().second);
        if (between.find_first_of("<>&") != std::string::npos)
            return between;
        at = (*i)[0].second;
        if ((*i)[1].length() > 0) {
            if (open.empty() || open.back() != (*i)[2])
                return i->str();
            open.pop_back();
        } else if ((*i)[4].length() == 0) {
            open.push_back((*i)[2]);
        }
    }
    return open.empty() ? "" : open.back();
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST(DrawSvg, IsWellFormed) {
    EXPECT_EQ(first_unmatched_tag(chart_of(ScheduleKind::interleaved, 3, 4, 2, {}).svg), "");
    EXPECT_EQ(first_unmatched_tag(chart_of(ScheduleKind::zb_h1, 3, 4, 1, {}).svg), "");
    EXPECT_NE(first_unmatched_tag("<svg><text></svg></text>"), "");
    EXPECT_NE(first_unmatched_tag("<svg>"), "");
}

TEST(DrawSvg, EveryComputeIsABoxAsLongAsItRuns) {
    const Chart chart = chart_of(ScheduleKind::interleaved, 3, 5, 2, {1e-3, 1.5e-3, 1e-3, 2e-4});
    static const std::regex box("<rect x=\"([0-9.]+)\" y=\"([0-9.]+)\" "
                                "width=\"([0-9.]+)\"[^>]*><title>([^:]+): ([0-9.]+) to ([0-9.]+) ms");
    std::vector<std::smatch> boxes;
    for (std::sregex_iterator i(chart.svg.begin(), chart.svg.end(), box), end; i != end; ++i)
        boxes.push_back(*i);
    std::size_t next = 0;
    double px_a_second = 0;
    std::set<std::string> rows;
    for (const auto& rank : chart.timeline.ranks)
        for (const auto& [instruction, start, end] : rank) {
            ASSERT_LT(next, boxes.size());
            const std::smatch& at = boxes[next];
            const double left = std::stod(at[1]), width = std::stod(at[3]);
            EXPECT_EQ(at[4].str(), concat(name(instruction.op), " of micro-batch ", instruction.micro_batch,
                                          ", chunk ", instruction.chunk));
            EXPECT_LE(std::abs(std::stod(at[5]) * 1e-3 - start), 1e-6); // printed to three digits or more
            EXPECT_LE(std::abs(std::stod(at[6]) * 1e-3 - end), 1e-6);
            if (next == 0)
                px_a_second = width / (end - start);
            // Printed to 1/100 px; the scale is known to that from the first box.
            const double first_left = std::stod(boxes[0][1]);
            EXPECT_LE(std::abs(width / (end - start) - px_a_second), 0.01 / 1e-3 * 2);
            EXPECT_LE(std::abs(left - first_left - start * px_a_second), 0.01 + 0.01 * start / 1e-3);
            rows.insert(at[2]);
            ++next;
        }
    EXPECT_EQ(next, boxes.size());
    EXPECT_EQ(rows.size(), 3u);
}

TEST(DrawSvg, NumbersTheBoxesThatAreWideEnough) {
    const Chart chart = chart_of(ScheduleKind::one_f_one_b, 2, 12, 1, {});
    static const std::regex number("pointer-events=\"none\" fill=\"#[0-9a-f]+\">([0-9]+)</text>");
    std::map<int, int> seen;
    for (std::sregex_iterator i(chart.svg.begin(), chart.svg.end(), number), end; i != end; ++i)
        ++seen[std::stoi((*i)[1])];
    ASSERT_EQ(seen.size(), 12u);
    for (const auto& [micro_batch, times] : seen)
        EXPECT_EQ(times, 4) << micro_batch; // forward and backward on two stages
}

TEST(DrawSvg, NamesWhatIsThereAndNothingElse) {
    const Chart halves = chart_of(ScheduleKind::zb_h1, 2, 3, 1, {});
    EXPECT_TRUE(contains(halves.svg, ">input gradient</text>"));
    EXPECT_TRUE(contains(halves.svg, ">weight gradient</text>"));
    EXPECT_FALSE(contains(halves.svg, ">backward</text>"));
    const Chart whole = chart_of(ScheduleKind::one_f_one_b, 2, 3, 1, {});
    EXPECT_TRUE(contains(whole.svg, ">backward</text>"));
    EXPECT_FALSE(contains(whole.svg, "gradient</text>"));
    EXPECT_TRUE(contains(whole.svg, "12.00 s a step, bubble 25.0 %"));
    EXPECT_TRUE(contains(whole.svg, ">stage 1</text>"));
    EXPECT_TRUE(contains(whole.svg, ">time in s</text>"));
    const Chart chunks = chart_of(ScheduleKind::interleaved, 2, 4, 2, {});
    EXPECT_TRUE(contains(chunks.svg, ">forward of chunk</text>"));
}

TEST(DrawSvg, ChunksAndKindsHaveColoursOfTheirOwn) {
    const Chart chart = chart_of(ScheduleKind::interleaved, 2, 4, 4, {});
    static const std::regex box(
        "fill=\"(#[0-9a-f]{6})\"[^>]*><title>([a-z_]+) of micro-batch [0-9]+, (chunk [0-9]+)");
    std::map<std::string, std::set<std::string>> colours;
    std::set<std::string> all;
    for (std::sregex_iterator i(chart.svg.begin(), chart.svg.end(), box), end; i != end; ++i) {
        colours[(*i)[2].str() + (*i)[3].str()].insert((*i)[1]);
        all.insert((*i)[1]);
    }
    EXPECT_EQ(colours.size(), 8u);
    EXPECT_EQ(all.size(), 8u);
    for (const auto& [what, of_it] : colours)
        EXPECT_EQ(of_it.size(), 1u) << what;
}

TEST(DrawSvg, TheUnitFitsTheDuration) {
    EXPECT_TRUE(contains(chart_of(ScheduleKind::gpipe, 2, 3, 1, {0.02, 0.02, 0.02, 0}).svg, ">time in ms<"));
    EXPECT_TRUE(contains(chart_of(ScheduleKind::gpipe, 2, 3, 1, {2e-5, 2e-5, 2e-5, 0}).svg, ">time in µs<"));
}

TEST(DrawSvg, AnotherSchedulesTimesAreOurBug) {
    const Chart chart = chart_of(ScheduleKind::gpipe, 2, 3, 1, {});
    EXPECT_THROW(draw_svg(make_schedule(ScheduleKind::gpipe, 3, 3, 1), chart.timeline), Error);
    EXPECT_THROW(draw_svg(chart.schedule,
                          simulate(chart.schedule, std::vector(2, std::vector{PieceCost{0, 0, 0, 0}}))),
                 Error);
}

} // namespace
} // namespace trireme::topology
