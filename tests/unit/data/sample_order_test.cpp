// The order of samples: permutations are bijective, windows cover the ring, and the shuffle looks like one.
#include "trireme/data/sample_order.hpp"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <set>
#include <vector>

#include "support/test_level.hpp"

namespace trireme::data {
namespace {

constexpr PhiloxKey kKey = {11, 22};

// All sizes up to 10,000 take a minute; the quick level leaves out most.
TEST(Permutation, IsBijectiveForManySizes) {
    const std::uint64_t all_up_to = test::full() ? 10'000 : 300;
    std::vector<std::uint64_t> sizes;
    for (std::uint64_t size = 1; size <= all_up_to; ++size)
        sizes.push_back(size);
    for (const std::uint64_t size : {511, 512, 513, 1023, 1024, 1025, 4096, 4097, 9999, 10000})
        sizes.push_back(size);
    for (const std::uint64_t size : sizes) {
        const Permutation permutation(size, kKey, 0, size);
        std::vector<bool> seen(size, false);
        for (std::uint64_t index = 0; index < size; ++index) {
            const std::uint64_t value = permutation(index);
            ASSERT_LT(value, size);
            ASSERT_FALSE(seen[value]) << "size " << size << ", value " << value;
            seen[value] = true;
        }
    }
}

TEST(Permutation, HasNoRepeatsInSamplesOfLargeSizes) {
    for (const std::uint64_t size : {(1ull << 32) + 5, 1ull << 40, (1ull << 40) + 1, (1ull << 62)}) {
        const Permutation permutation(size, kKey, 1, 3);
        std::set<std::uint64_t> seen;
        for (std::uint64_t index = 0; index < 2000; ++index) {
            const std::uint64_t value = permutation(index < 1000 ? index : size - 1 - (index - 1000));
            ASSERT_LT(value, size);
            ASSERT_TRUE(seen.insert(value).second);
        }
    }
}

TEST(Permutation, DependsOnKeyStreamAndEpoch) {
    const auto order = [](PhiloxKey key, std::uint32_t stream, std::uint64_t epoch) {
        std::vector<std::uint64_t> values;
        for (std::uint64_t index = 0; index < 50; ++index)
            values.push_back(Permutation(50, key, stream, epoch)(index));
        return values;
    };
    const auto base = order(kKey, 0, 0);
    EXPECT_EQ(order(kKey, 0, 0), base);
    EXPECT_NE(order({11, 23}, 0, 0), base);
    EXPECT_NE(order(kKey, 1, 0), base);
    EXPECT_NE(order(kKey, 0, 1), base);
    EXPECT_NE(order(kKey, 0, 1ull << 32), base);
}

// Over many epochs every (position, value) of a small permutation must be as likely as another: chi-square
// with 6 x 5 cells' worth of freedom, (6 - 1)^2 = 25 degrees; 80 is beyond 10^-7 for a true shuffle.
TEST(Permutation, IsUniformOverEpochs) {
    constexpr int kSize = 6, kEpochs = 12000;
    std::vector<std::vector<double>> count(kSize, std::vector<double>(kSize, 0));
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
        const Permutation permutation(kSize, kKey, 0, static_cast<std::uint64_t>(epoch));
        for (std::size_t index = 0; index < kSize; ++index)
            ++count[index][permutation(index)];
    }
    const double expected = static_cast<double>(kEpochs) / kSize;
    double chi_square = 0;
    for (const auto& row : count)
        for (const double found : row)
            chi_square += (found - expected) * (found - expected) / expected;
    EXPECT_LE(chi_square, 80.0);
}

TEST(Permutation, LeavesNoTraceOfNeighboursOrPosition) {
    constexpr std::uint64_t kSize = 5000;
    const Permutation permutation(kSize, kKey, 0, 0);
    double correlation = 0, step = 0;
    int neighbours = 0;
    const double mean = (kSize - 1) / 2.0, variance = (static_cast<double>(kSize) * kSize - 1) / 12.0;
    for (std::uint64_t index = 0; index < kSize; ++index) {
        const double value = static_cast<double>(permutation(index));
        correlation += (static_cast<double>(index) - mean) * (value - mean) / variance / kSize;
        if (index > 0) {
            const double before = static_cast<double>(permutation(index - 1));
            step += (before - mean) * (value - mean) / variance / kSize;
            neighbours += std::abs(value - before) == 1.0;
        }
    }
    const double bound = 5 / std::sqrt(static_cast<double>(kSize)); // 5 standard deviations
    EXPECT_LE(std::abs(correlation), bound);
    EXPECT_LE(std::abs(step), bound);
    EXPECT_LE(neighbours, 12); // 2 expected
}

TEST(SampleOrder, WindowsCoverTheRingOnceAnEpoch) {
    for (const auto& [tokens, length] :
         {std::pair{11, 3}, {4, 3}, {5, 3}, {100, 1}, {101, 10}, {1000, 7}, {2, 1}}) {
        const SampleOrder order(tokens, length, 1234, 0);
        const std::int64_t windows = (tokens - 1) / length;
        ASSERT_EQ(order.samples_per_epoch(), windows);
        std::set<std::int64_t> offsets;
        for (std::int64_t epoch = 0; epoch < 150; ++epoch) {
            const std::int64_t offset = order.epoch_offset(epoch);
            ASSERT_GE(offset, 0);
            ASSERT_LT(offset, length);
            offsets.insert(offset);
            std::set<std::int64_t> expected, found;
            for (std::int64_t window = 0; window < windows; ++window) {
                expected.insert((offset + window * length) % tokens);
                found.insert(order.begin(epoch * windows + window));
            }
            ASSERT_EQ(found, expected) << "tokens " << tokens << ", length " << length << ", epoch " << epoch;
        }
        EXPECT_EQ(static_cast<std::int64_t>(offsets.size()), length); // at most 10 values, 150 draws
    }
}

} // namespace
} // namespace trireme::data
