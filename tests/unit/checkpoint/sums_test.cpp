// Sums: of any partition they are the same, and any change of an element, or of two of them for each other,
// shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "checkpoint/sums.hpp"
#include "trireme/comm/host_group.hpp"

namespace trireme::checkpoint {
namespace {

using topology::Box;

// The formula of docs/checkpoint-format.md in another language.
TEST(Sums, AreWhatTheFormatSays) {
    EXPECT_EQ(word_hash(0u, 0x00000000u), 0x4eab8e19baa0e8f3u);
    EXPECT_EQ(word_hash(1u, 0x3f800000u), 0x03e95f7fe1abafd9u);
    EXPECT_EQ(word_hash(1099511627783u, 0xffffffffu), 0xbf719233630856e0u);
    const double value = -2.75; // element 5: words 10 and 11
    EXPECT_EQ(sum_of_run(5, std::as_bytes(std::span(&value, 1)), DType::f64), 0x04eaf9959c6a984bu);
    const std::array<BFloat16, 2> halves{BFloat16(1.0f), BFloat16(-2.0f)}; // 3F80, C000
    EXPECT_EQ(sum_of_run(3, std::as_bytes(std::span(halves)), DType::bf16), 0x82c0063b3e06f680u);
}

// Nothing but the position tells these words apart: each must have a hash of its own.
TEST(Sums, TellPositionsApart) {
    for (const std::uint32_t word : {0u, 1u, 0x3F800000u, 0xFFFFFFFFu}) {
        std::vector<std::uint64_t> hashes;
        for (std::uint64_t i = 0; i < 200000; ++i)
            hashes.push_back(word_hash(i, word));
        std::ranges::sort(hashes);
        EXPECT_EQ(std::ranges::adjacent_find(hashes), hashes.end()) << word;
    }
}

std::vector<float> ramp(std::int64_t elements) {
    std::vector<float> values(static_cast<std::size_t>(elements));
    std::iota(values.begin(), values.end(), 0.5f);
    return values;
}

// The elements of a box of a row-major tensor, one by one.
std::vector<float> elements_of(const std::vector<float>& values, std::span<const std::int64_t> shape,
                               const Box& box) {
    std::vector<float> result;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(values.size()); ++i) {
        bool inside = true;
        std::int64_t rest = i;
        for (std::size_t axis = shape.size(); axis-- > 0; rest /= shape[axis])
            inside = inside && box.axes[axis].begin <= rest % shape[axis] &&
                     rest % shape[axis] < box.axes[axis].end;
        if (inside)
            result.push_back(values[static_cast<std::size_t>(i)]);
    }
    return result;
}

TEST(Sums, AreThoseOfAnyPartition) {
    const std::vector<std::int64_t> shape{5, 4, 3};
    const std::vector<float> values = ramp(60);
    std::uint64_t expected = 0;
    for (std::uint64_t i = 0; i < 60; ++i) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, &values[i], sizeof bits);
        expected += word_hash(i, bits);
    }
    const std::vector<std::vector<Box>> partitions{
        {Box::whole(shape)},
        {Box{{{0, 2}, {0, 4}, {0, 3}}}, Box{{{2, 5}, {0, 4}, {0, 3}}}},
        {Box{{{0, 5}, {0, 1}, {0, 3}}}, Box{{{0, 5}, {1, 4}, {0, 1}}}, Box{{{0, 5}, {1, 4}, {1, 3}}}},
        topology::boxes_of_flat_range(shape, {0, 60})};
    for (const std::vector<Box>& boxes : partitions) {
        SumTable table({{2, 2}, shape});
        for (const Box& box : boxes) {
            const std::vector<float> elements = elements_of(values, shape, box);
            table.add(1, box, std::as_bytes(std::span(elements)), DType::f32);
        }
        EXPECT_EQ(table.tensor_sum(1), expected);
        EXPECT_EQ(table.elements(1, 0), 60);
        EXPECT_EQ(table.tensor_sum(0), 0u);
    }
}

TEST(Sums, HaveRangesOf4MiElements) {
    const std::vector<std::int64_t> shape{3, kRangeElements / 2};
    SumTable table({shape});
    EXPECT_EQ(table.ranges(0), 2);
    EXPECT_EQ(table.range(0, 1), (topology::Interval{kRangeElements, 3 * kRangeElements / 2}));
    const std::vector<std::byte> zeros(static_cast<std::size_t>(3 * kRangeElements / 2));
    table.add(0, Box::whole(shape), zeros, DType::u8);
    EXPECT_EQ(table.elements(0, 0), kRangeElements);
    EXPECT_EQ(table.elements(0, 1), kRangeElements / 2);
    std::uint64_t first = 0, second = 0;
    for (std::int64_t i = 0; i < 3 * kRangeElements / 2; ++i)
        (i < kRangeElements ? first : second) += word_hash(static_cast<std::uint64_t>(i), 0);
    EXPECT_EQ(table.sum(0, 0), first);
    EXPECT_EQ(table.sum(0, 1), second);
}

TEST(Sums, ReplicasAreChecked) {
    const std::vector<std::int64_t> shape{6};
    std::vector<float> values = ramp(6);
    const auto table_of = [&](std::initializer_list<std::pair<std::int64_t, std::int64_t>> ranges) {
        SumTable table({shape});
        for (const auto& [begin, end] : ranges)
            table.add(0, Box{{{begin, end}}},
                      std::as_bytes(std::span(values).subspan(static_cast<std::size_t>(begin),
                                                              static_cast<std::size_t>(end - begin))),
                      DType::f32);
        return table;
    };
    const SumTable expected = table_of({{0, 6}});
    EXPECT_TRUE(differences(table_of({{0, 6}}), expected).empty());
    EXPECT_TRUE(differences(table_of({{0, 6}, {0, 2}, {2, 6}}), expected).empty()) << "two readers";
    EXPECT_TRUE(differences(table_of({}), expected).empty()) << "nothing was read";
    ASSERT_EQ(differences(table_of({{0, 4}}), expected).size(), 1u);
    EXPECT_EQ(differences(table_of({{0, 4}}), expected).front().what, "4 of its 6 elements are there");
    EXPECT_EQ(differences(table_of({{0, 6}, {0, 2}}), expected).size(), 1u);
    SumTable one_is_wrong = table_of({{0, 6}});
    values[3] = 3.25f;
    one_is_wrong.add(0, Box{{{0, 6}}}, std::as_bytes(std::span(values)), DType::f32);
    ASSERT_EQ(differences(one_is_wrong, expected).size(), 1u) << "the second reader saw another value";
    EXPECT_EQ(differences(one_is_wrong, expected).front().range, (topology::Interval{0, 6}));
    std::swap(values[0], values[1]);
    values[3] = 3.5f;
    EXPECT_EQ(differences(table_of({{0, 6}}), expected).size(), 1u) << "two elements changed places";
}

TEST(Sums, AreStoredAndReadAgain) {
    const std::vector<float> values = ramp(6);
    SumTable table({{2, 3}, {6}});
    table.add(0, Box::whole(table.shape(0)), std::as_bytes(std::span(values)), DType::f32);
    table.add(1, Box::whole(table.shape(1)), std::as_bytes(std::span(values)), DType::f32);
    SumTable other({{2, 3}, {6}});
    other.set_stored(table.stored());
    EXPECT_TRUE(differences(table, other).empty());
    EXPECT_EQ(other.tensor_sum(0), table.tensor_sum(0));
    EXPECT_EQ(table.tensor_sum(0), table.tensor_sum(1)) << "global indices count, not the shape";
    table.all_reduce(*comm::make_self_host_group());
    EXPECT_EQ(other.tensor_sum(0), table.tensor_sum(0)) << "the sum over one rank";
}

} // namespace
} // namespace trireme::checkpoint
