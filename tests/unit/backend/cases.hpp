// What the tests of operations share: arrays with a shape, random inputs, runs on several numbers of threads,
// and central finite differences.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "../../support/tolerance.hpp"
#include "trireme/backend/backend.hpp"

namespace trireme::test {

template <class T>
struct Array {
    Shape shape;
    std::vector<T> values;

    explicit Array(const Shape& extents, T value = T{})
        : shape(extents), values(static_cast<std::size_t>(extents.elements()), value) {}
    Tensor tensor() { return Tensor(std::span<T>(values), shape); }
    template <class R>
    std::vector<R> as() const {
        return {values.begin(), values.end()};
    }
};

// Uniform in [-1, 1) * size, the same for float and double runs up to rounding.
template <class T>
Array<T> random_array(const Shape& shape, unsigned seed, double size = 1) {
    Array<T> out(shape);
    std::mt19937 words(seed);
    for (T& value : out.values)
        value = static_cast<T>(size * (words() * 0x1.0p-31 - 1));
    return out;
}

inline Array<std::int32_t> random_tokens(const Shape& shape, unsigned seed, std::int32_t below) {
    Array<std::int32_t> out(shape);
    std::mt19937 words(seed);
    for (std::int32_t& value : out.values)
        value = static_cast<std::int32_t>(words() % static_cast<unsigned>(below));
    return out;
}

// compute(operations) -> the results as one vector; on 1, 2 and 3 threads, which must give the same bits.
template <class Compute>
auto on_all_threads(const Compute& compute) {
    const auto one = compute(backend::make_cpu_backend(1)->compute());
    for (const int threads : {2, 3}) {
        const auto other = compute(backend::make_cpu_backend(threads)->compute());
        EXPECT_EQ(one.size(), other.size());
        EXPECT_EQ(std::memcmp(one.data(), other.data(), one.size() * sizeof one[0]), 0)
            << threads << " threads give other bits than one";
    }
    return one;
}

template <class T>
void append(std::vector<T>& to, const Array<T>& from) {
    to.insert(to.end(), from.values.begin(), from.values.end());
}

// d loss / d x by central differences with a step of 1e-5: what is left is step^2 * f''' / 6 (some 1e-11) and
// rounding of the loss over the step (some 1e-10 for losses of order 10).
inline std::vector<double> finite_differences(std::vector<double>& x, const std::function<double()>& loss) {
    constexpr double kStep = 1e-5;
    std::vector<double> out;
    for (double& value : x) {
        const double before = value;
        value = before + kStep;
        const double above = loss();
        value = before - kStep;
        const double below = loss();
        value = before;
        out.push_back((above - below) / (2 * kStep));
    }
    return out;
}
inline constexpr double kFiniteDifferenceBound = 2e-9; // of order-1 gradients: ten times the estimate above

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        sum += a[i] * b[i];
    return sum;
}

} // namespace trireme::test
