// The one comparator of the tests: passes only if |difference| <= bound for every element, so that NaN fails,
// and says where it is worst.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iomanip>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::test {

// got, want: ranges with size() and []. Infinities of the same sign are equal.
template <class Got, class Want>
testing::AssertionResult within(const Got& got, const Want& want, long double bound) {
    if (got.size() != want.size())
        return testing::AssertionFailure() << got.size() << " values, expected " << want.size();
    std::size_t worst = got.size();
    long double most = -1;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const auto a = static_cast<long double>(got[i]), b = static_cast<long double>(want[i]);
        const long double difference = a == b ? 0 : std::abs(a - b);
        if (!(difference <= most)) { // NaN is the worst of all
            most = difference;
            worst = i;
            if (std::isnan(difference))
                break;
        }
    }
    if (worst == got.size() || most <= bound)
        return testing::AssertionSuccess();
    return testing::AssertionFailure()
           << std::setprecision(17) << "worst at " << worst << " of " << got.size() << ": "
           << static_cast<long double>(got[worst]) << ", expected " << static_cast<long double>(want[worst])
           << ", difference " << most << ", bound " << bound;
}

// The largest |value|.
template <class Values>
long double largest(const Values& values) {
    long double most = 0;
    for (const auto value : values)
        most = std::max(most, std::abs(static_cast<long double>(value)));
    return most;
}

// For a result in T: twice the error that a plain loop in T makes on the same inputs, and never less than two
// units in the last place of the largest value (the plain loop may be lucky).
template <class T, class Truth>
long double twice_plain_error(const std::vector<T>& plain, const Truth& truth) {
    long double error = 0;
    for (std::size_t i = 0; i < plain.size(); ++i)
        error = std::max(error,
                         std::abs(static_cast<long double>(plain[i]) - static_cast<long double>(truth[i])));
    return 2 * error + 2 * std::numeric_limits<T>::epsilon() * largest(truth);
}

} // namespace trireme::test
