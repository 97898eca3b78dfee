// What the public operations check with: types and shapes, once, for every backend. A mismatch is a bug of
// the caller, so the error is internal; it names the operation, the rule and every tensor's shape. In a
// namespace of its own, since kernels have functions of the same names.
#pragma once

#include <array>
#include <string_view>

#include "trireme/backend/ops.hpp"

namespace trireme::backend::checks {

struct Named {
    Named() = default;
    Named(std::string_view text, const Tensor& named) : label(text), tensor(&named) {}
    std::string_view label;
    const Tensor* tensor = nullptr;
};

// One call of an operation: keeps its tensors for the message and checks rule by rule.
class Check {
  public:
    Check(std::string_view operation, std::initializer_list<Named> tensors) : operation_(operation) {
        for (const Named& tensor : tensors)
            tensors_[count_++] = tensor;
    }

    const Check& that(bool holds, std::string_view rule) const {
        if (!holds) [[unlikely]]
            refuse(rule);
        return *this;
    }
    // All but the last `optional` tensors exist.
    const Check& defined(std::size_t optional = 0) const {
        for (std::size_t i = 0; i + optional < count_; ++i)
            that(tensors_[i].tensor->defined(), "a tensor is missing");
        return *this;
    }
    // An undefined tensor passes.
    const Check& type(const Tensor& tensor, DType type, std::string_view rule) const {
        return that(!tensor.defined() || tensor.type() == type, rule);
    }

  private:
    [[noreturn]] void refuse(std::string_view rule) const;

    static constexpr std::size_t kMostTensors = 6;
    std::string_view operation_;
    std::array<Named, kMostTensors> tensors_{};
    std::size_t count_ = 0;
};

inline std::int64_t columns(const Tensor& tensor) {
    return tensor.shape().rank() == 0 ? 1 : tensor.shape()[tensor.shape().rank() - 1];
}
// Leading axes count as one: [T, B, C] has T * B rows.
inline std::int64_t rows(const Tensor& tensor) {
    return columns(tensor) == 0 ? 0 : tensor.elements() / columns(tensor);
}
inline bool is_vector(const Tensor& tensor, std::int64_t elements) {
    return tensor.shape().rank() == 1 && tensor.elements() == elements;
}
inline bool is_matrix(const Tensor& tensor, std::int64_t row_count, std::int64_t column_count) {
    return tensor.shape().rank() == 2 && tensor.shape()[0] == row_count && tensor.shape()[1] == column_count;
}
inline bool same_rows(const Tensor& a, const Tensor& b) {
    return rows(a) == rows(b);
}

inline constexpr std::string_view kOneType = "activations and weights have one float type";
inline constexpr std::string_view kMainType =
    "gradients of weights are in the main type: fp64 for fp64, else fp32";
inline constexpr std::string_view kStatType = "statistics are fp64 for fp64 activations, else fp32";
inline constexpr std::string_view kTokenType = "tokens and targets are int32";
inline constexpr std::string_view kPositionType = "positions are int32";

// Its probability and positions.
void check_dropout(const Check& check, const Dropout& dropout);

} // namespace trireme::backend::checks
