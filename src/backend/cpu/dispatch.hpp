// From a tensor's type to a template argument, and the shapes that operations see: rows of the last axis.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "trireme/base/error.hpp"
#include "trireme/tensor/tensor.hpp"

namespace trireme::backend {

// Calls compute with a value of the element type: dispatch_float("add", x.type(), [&](auto zero) { ...
// decltype(zero) }).
template <class Compute>
void dispatch_float(std::string_view operation, DType type, const Compute& compute) {
    switch (type) {
    case DType::f32:
        return compute(float{});
    case DType::f64:
        return compute(double{});
    default:
        throw Error(ErrorCategory::internal, concat(operation, " does not compute in ", name(type)));
    }
}

template <class T>
const T* data(const Tensor& tensor) {
    return tensor.values<T>().data();
}
template <class T>
T* writable(const Tensor& tensor) {
    return tensor.values<T>().data();
}

inline std::int64_t columns(const Tensor& tensor) {
    return tensor.shape()[tensor.shape().rank() - 1];
}
inline std::int64_t rows(const Tensor& tensor) {
    return columns(tensor) == 0 ? 0 : tensor.elements() / columns(tensor);
}

// Elements that are worth a thread: some microseconds of work against one or two to share it.
inline constexpr std::int64_t kGrain = 8192;
inline std::int64_t rows_per_chunk(std::int64_t width) {
    return std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, width));
}

} // namespace trireme::backend
