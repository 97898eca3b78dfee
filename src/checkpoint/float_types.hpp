// Going from the type of a tensor to the C++ type of its elements, and between float types without losing
// more than the narrower one must.
#pragma once

#include <type_traits>

#include "trireme/base/error.hpp"
#include "trireme/tensor/tensor.hpp"

namespace trireme::checkpoint {

// Calls work(span of elements) for a host tensor of a float type.
template <class Work>
void visit_floats(const Tensor& tensor, Work work) {
    TRIREME_ASSERT(is_float(tensor.type()), name(tensor.type()), " is no float type");
    with_float_type(tensor.type(), [&](auto zero) { work(tensor.values<decltype(zero)>()); });
}

// Narrower than float by way of float, as training rounds master weights.
template <class To, class From>
To float_cast(From value) {
    if constexpr (std::is_same_v<To, From>)
        return value;
    else if constexpr (std::is_arithmetic_v<To> && std::is_arithmetic_v<From>)
        return static_cast<To>(value);
    else if constexpr (std::is_arithmetic_v<To>)
        return static_cast<To>(static_cast<float>(value));
    else if constexpr (std::is_same_v<To, BFloat16>)
        return SplitFloat(static_cast<float>(value)).high;
    else
        return To(static_cast<float>(value));
}

} // namespace trireme::checkpoint
