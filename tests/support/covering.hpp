// Cases that meet every pair of values of a space of factors, where not all values go together, and then as
// many triples as a number of cases allows: a covering array, grown greedily case by case (Cohen et al. 1997,
// "The AETG system"). The same space gives the same cases.
//
// What goes together is known only through `broken`, so whether a pair is allowed is found by looking for an
// allowed case that holds it: from known cases, one value is changed after the other while that mends a rule
// or at least breaks another one instead.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace trireme::test {

using Case = std::vector<int>; // of each factor, the number of its value
using Broken =
    std::vector<std::string>; // rules that a case breaks, a text for each that names what they concern

struct Space {
    std::vector<int> sizes;                              // of each factor, its values
    std::function<Broken(const Case&)> broken;           // none: the case is allowed
    Case defaults() const { return Case(sizes.size()); } // value 0 of each; must be allowed
};

struct Choice {
    int factor, value;
    bool operator==(const Choice&) const = default;
};
struct Pair {
    Choice first, second; // first.factor < second.factor
};

struct Cover {
    std::vector<Case> cases; // the pairs come first
    std::size_t pairs = 0;   // of two values of different factors
    std::vector<Pair> refused;
    std::size_t allowed() const { return pairs - refused.size(); }
};

// At least `least` cases, and more where the pairs need them.
Cover make_cover(const Space& space, std::size_t least);

// Some allowed case with these values; empty if none was found.
Case allowed_case_with(const Space& space, const std::vector<Choice>& fixed);

// Different pairs in the cases.
std::size_t pairs_met(const Space& space, const std::vector<Case>& cases);

} // namespace trireme::test
