// Blends: how their words are read, and that every member always has its share within one sample.
#include "trireme/data/blend.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

#include "data_test_support.hpp"

namespace trireme::data {
namespace {

TEST(BlendWords, FollowMegatronsRule) {
    const auto read = [](const std::vector<std::string>& words) {
        std::string text;
        for (const BlendWord& word : parse_blend(words, "--data-path"))
            text += concat(word.prefix, "=", word.weight, " ");
        return text;
    };
    EXPECT_EQ(read({"a"}), "a=0 ");
    EXPECT_EQ(read({"7"}), "7=0 ") << "one word is a prefix, whatever it looks like";
    EXPECT_EQ(read({"a", "b", "c"}), "a=0 b=0 c=0 ");
    EXPECT_EQ(read({"a", "b"}), "a=0 b=0 ");
    EXPECT_EQ(read({"0.7", "a", "0.3", "b"}), "a=0.7 b=0.3 ");
    EXPECT_EQ(read({"1", "a", "1e1", "2"}), "a=1 2=10 ") << "prefixes may look like numbers";
    const auto refusal = [&](const std::vector<std::string>& words) {
        return exit_code_of([&] { parse_blend(words, "--x"); }) == 2
                   ? message_of([&] { parse_blend(words, "--x"); })
                   : "not a usage error";
    };
    EXPECT_NE(refusal({}).find("--x is missing"), std::string::npos);
    EXPECT_NE(refusal({"0.7", "a", "b", "c"}).find("a weight is missing in --x before b"), std::string::npos);
    EXPECT_NE(refusal({"0.7", "a", "0.3"}).find("an odd number of words"), std::string::npos);
    EXPECT_NE(refusal({"0", "a", "1", "b"}).find("weight 0 in --x is not a positive number"),
              std::string::npos);
    EXPECT_NE(refusal({"-1", "a", "1", "b"}).find("weight -1"), std::string::npos);
    EXPECT_NE(refusal({"inf", "a", "1", "b"}).find("weight inf"), std::string::npos);
    EXPECT_NE(refusal({"nan", "a", "1", "b"}).find("weight nan"), std::string::npos);
}

TEST(Blend, RoundsSharesToUnits) {
    EXPECT_EQ(Blend({1, 3}).units(), (std::vector<std::int64_t>{1 << 18, 3 << 18}));
    EXPECT_EQ(Blend({1, 3}).period(), 4);
    EXPECT_EQ(Blend({5}).units(), (std::vector<std::int64_t>{1 << 20}));
    // 2^20 = 3 x 349525 + 1: the first of equal remainders gets the rest.
    EXPECT_EQ(Blend({1, 1, 1}).units(), (std::vector<std::int64_t>{349526, 349525, 349525}));
    EXPECT_EQ(Blend({1, 1e-9, 1e-9}).units(), (std::vector<std::int64_t>{(1 << 20) - 2, 1, 1}))
        << "nobody is left out";
    for (const double share : {0.7, 0.123456, 1e-5, 0.999999}) {
        const Blend blend({share, 1 - share});
        EXPECT_LE(std::abs(static_cast<double>(blend.units()[0]) - share * 1048576), 0.5 + 1e-9);
        EXPECT_EQ(blend.units()[0] + blend.units()[1], 1 << 20);
    }
}

// Over a whole period and into the next: each draw continues its member's samples, and no member is ever off
// by more than 1 - 1 / (2k - 2) from share x draws (counted in whole numbers).
void expect_fair(const std::vector<double>& weights) {
    const Blend blend(weights);
    const std::int64_t members = static_cast<std::int64_t>(weights.size());
    std::vector<std::int64_t> drawn(weights.size(), 0);
    std::int64_t worst = 0;
    for (std::int64_t sample = 0; sample < blend.period() + 1000; ++sample) {
        const Blend::Turn turn = blend.turn(sample);
        ASSERT_LT(turn.member, weights.size());
        ASSERT_EQ(turn.sample, drawn[turn.member]) << "sample " << sample;
        ++drawn[turn.member];
        // Looking at every member at every step would be slow for many; the drawn one moved most.
        const std::size_t first = members <= 8 ? 0 : turn.member,
                          end = members <= 8 ? weights.size() : first + 1;
        for (std::size_t member = first; member < end; ++member)
            worst = std::max(worst,
                             std::abs(drawn[member] * Blend::kUnits - blend.units()[member] * (sample + 1)));
    }
    const double bound = members == 1 ? 0 : 1 - 1 / (2 * static_cast<double>(members) - 2);
    EXPECT_LE(static_cast<double>(worst) / Blend::kUnits, bound);
}

TEST(Blend, EveryMemberIsAlwaysWithinOneSampleOfItsShare) {
    expect_fair({1});
    expect_fair({0.7, 0.3});
    expect_fair({1, 1});
    expect_fair({1, 1, 1});
    expect_fair({0.5, 0.25, 0.25});
    expect_fair({1e-6, 1});
    expect_fair({0.9, 0.05, 0.03, 0.0199, 0.0001});
    std::vector<double> many(100);
    for (std::size_t member = 0; member < many.size(); ++member)
        many[member] = 1.0 / static_cast<double>((member * 37) % 100 + 1);
    expect_fair(many);
}

} // namespace
} // namespace trireme::data
