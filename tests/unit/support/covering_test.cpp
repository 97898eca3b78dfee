// The generator of cases behind the pairwise test, against brute force on spaces small enough to list.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "support/covering.hpp"

namespace trireme::test {
namespace {

// A rule on some factors: its text shows their values, as the messages of the options do.
struct Rule {
    std::vector<std::size_t> factors;
    std::function<bool(const Case&)> breaks;
};

std::function<Broken(const Case&)> rules(const std::vector<Rule>& all) {
    return [=](const Case& of) {
        Broken broken;
        for (std::size_t i = 0; i < all.size(); ++i)
            if (all[i].breaks(of)) {
                broken.push_back("rule " + std::to_string(i));
                for (const std::size_t factor : all[i].factors)
                    broken.back() += " " + std::to_string(of[factor]);
            }
        return broken;
    };
}

std::vector<Case> all_cases(const Space& space) {
    std::vector<Case> result{{}};
    for (const int size : space.sizes) {
        std::vector<Case> longer;
        for (const Case& of : result)
            for (int value = 0; value < size; ++value) {
                longer.push_back(of);
                longer.back().push_back(value);
            }
        result = std::move(longer);
    }
    std::erase_if(result, [&](const Case& of) { return !space.broken(of).empty(); });
    return result;
}

using PairSet = std::set<std::tuple<int, int, int, int>>;

PairSet pairs_in(const std::vector<Case>& cases) {
    PairSet result;
    for (const Case& of : cases)
        for (std::size_t a = 0; a < of.size(); ++a)
            for (std::size_t b = a + 1; b < of.size(); ++b)
                result.emplace(static_cast<int>(a), of[a], static_cast<int>(b), of[b]);
    return result;
}

// The cover meets what brute force finds in all allowed cases, and refuses the rest.
void expect_exact(const Space& space) {
    const Cover cover = make_cover(space, 0);
    for (const Case& of : cover.cases)
        EXPECT_TRUE(space.broken(of).empty());
    const PairSet possible = pairs_in(all_cases(space));
    EXPECT_EQ(pairs_in(cover.cases), possible);
    EXPECT_EQ(cover.allowed(), possible.size());
    EXPECT_EQ(pairs_met(space, cover.cases), possible.size());
    for (const auto& [first, second] : cover.refused)
        EXPECT_FALSE(possible.contains({first.factor, first.value, second.factor, second.value}));
}

TEST(Covering, WithoutRulesAllPairsInFewCases) {
    const Space space{.sizes = std::vector<int>(10, 3), .broken = [](const Case&) { return Broken{}; }};
    const Cover cover = make_cover(space, 0);
    EXPECT_EQ(cover.pairs, 45u * 9);
    EXPECT_TRUE(cover.refused.empty());
    EXPECT_EQ(pairs_met(space, cover.cases), cover.pairs);
    EXPECT_GE(cover.cases.size(), 9u);  // 3 x 3 pairs of two factors
    EXPECT_LE(cover.cases.size(), 27u); // an eighth of what one case a pair of 3^3 would take
}

TEST(Covering, PairsNobodyCanMeetAreRefused) {
    // Two values that exclude each other.
    expect_exact({.sizes = {2, 3, 3, 2},
                  .broken = rules({{{1, 2}, [](const Case& c) { return c[1] == 2 && c[2] == 1; }},
                                   {{0, 3}, [](const Case& c) { return c[0] == 1 && c[3] == 1; }}})});
    // A value that needs two others, of which one needs a third.
    expect_exact({.sizes = {2, 2, 2, 3, 3, 2},
                  .broken = rules({{{0, 1}, [](const Case& c) { return c[0] == 1 && c[1] == 0; }},
                                   {{0, 2}, [](const Case& c) { return c[0] == 1 && c[2] == 0; }},
                                   {{2, 3}, [](const Case& c) { return c[2] == 1 && c[3] != 2; }}})});
    // A product with a limit, which hides other rules while it is broken, and a multiple.
    const auto product = [](const Case& c) { return (1 << c[0]) * (1 << c[1]) * (c[2] + 1); };
    expect_exact(
        {.sizes = {3, 3, 4, 2, 3},
         .broken = rules(
             {{{0, 1, 2}, [=](const Case& c) { return product(c) > 8; }},
              {{2, 3}, [=](const Case& c) { return product(c) <= 8 && 12 % ((c[2] + 1) * (c[3] + 1)) != 0; }},
              {{1, 4}, [=](const Case& c) { return product(c) <= 8 && c[4] == 2 && c[1] == 0; }}})});
}

TEST(Covering, MoreCasesMeetMoreTriplesAndAreTheSameEachTime) {
    const Space space{.sizes = {3, 2, 4, 2, 3, 2},
                      .broken = rules({{{0, 1}, [](const Case& c) { return c[0] == 2 && c[1] == 1; }}})};
    const Cover few = make_cover(space, 0), many = make_cover(space, 40);
    EXPECT_LT(few.cases.size(), 25u);
    ASSERT_EQ(many.cases.size(), 40u);
    EXPECT_TRUE(std::equal(few.cases.begin(), few.cases.end(), many.cases.begin()));
    EXPECT_EQ(std::set(many.cases.begin(), many.cases.end()).size(), 40u);
    EXPECT_EQ(make_cover(space, 40).cases, many.cases);
    for (const Case& of : many.cases)
        EXPECT_TRUE(space.broken(of).empty());
}

TEST(Covering, FindsACaseWithGivenValues) {
    const Space space{.sizes = {2, 2, 3},
                      .broken = rules({{{0, 2}, [](const Case& c) { return c[0] == 1 && c[2] != 2; }},
                                       {{1, 2}, [](const Case& c) { return c[1] == 1 && c[2] == 2; }}})};
    const Case found = allowed_case_with(space, {{0, 1}});
    EXPECT_EQ(found, (Case{1, 0, 2}));
    EXPECT_TRUE(allowed_case_with(space, {{0, 1}, {1, 1}}).empty());
}

} // namespace
} // namespace trireme::test
