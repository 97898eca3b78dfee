// Shape and Tensor. A Tensor is a view: it never owns memory (arenas do), is contiguous and row-major, and
// may lie on a device; only code of that device's backend follows its pointer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "trireme/base/error.hpp"
#include "trireme/tensor/dtype.hpp"

namespace trireme {

// Up to four extents, outermost first.
class Shape {
  public:
    static constexpr int kMaxRank = 4;

    Shape() = default;
    Shape(std::initializer_list<std::int64_t> extents);
    explicit Shape(std::span<const std::int64_t> extents);

    int rank() const { return rank_; }
    std::int64_t operator[](int axis) const {
        TRIREME_ASSERT(axis >= 0 && axis < rank_, "axis ", axis, " of a shape of rank ", rank_);
        return extents_[static_cast<std::size_t>(axis)];
    }
    std::int64_t elements() const;
    std::span<const std::int64_t> extents() const {
        return {extents_.data(), static_cast<std::size_t>(rank_)};
    }
    std::string text() const; // "[256, 2, 384]"
    bool operator==(const Shape&) const = default;

  private:
    std::array<std::int64_t, kMaxRank> extents_{};
    int rank_ = 0;
};

class Tensor {
  public:
    Tensor() = default; // undefined: no data, no elements
    Tensor(void* data, const Shape& shape, DType type) : data_(data), shape_(shape), type_(type) {}
    template <class T>
    Tensor(std::span<T> values, const Shape& shape) : Tensor(values.data(), shape, kDTypeOf<T>) {
        TRIREME_ASSERT(static_cast<std::int64_t>(values.size()) == shape.elements(), values.size(),
                       " values for a tensor of shape ", shape.text());
    }

    bool defined() const { return data_ != nullptr; }
    void* data() const { return data_; }
    const Shape& shape() const { return shape_; }
    DType type() const { return type_; }
    std::int64_t elements() const { return defined() ? shape_.elements() : 0; }
    std::int64_t bytes() const { return elements() * size_bytes(type_); }

    // The elements, for host memory only. Throws unless T is the element type.
    template <class T>
    std::span<T> values() const {
        TRIREME_ASSERT(kDTypeOf<T> == type_, "a tensor of ", name(type_), " was read as ", name(kDTypeOf<T>));
        return {static_cast<T*>(data_), static_cast<std::size_t>(elements())};
    }

    // The same elements under another shape.
    Tensor reshaped(const Shape& shape) const;
    // Rows [first, first + count) of the outermost axis: [8, 3] -> rows(2, 4) is [4, 3].
    Tensor rows(std::int64_t first, std::int64_t count) const;
    // `count` elements from flat position `first`, as a vector.
    Tensor flat(std::int64_t first, std::int64_t count) const;

  private:
    void* data_ = nullptr;
    Shape shape_;
    DType type_ = DType::f32;
};

} // namespace trireme
