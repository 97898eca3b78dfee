// Shape arithmetic and views of tensors.
#include "trireme/tensor/tensor.hpp"

#include <algorithm>

namespace trireme {

Shape::Shape(std::initializer_list<std::int64_t> extents)
    : Shape(std::span<const std::int64_t>(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const std::int64_t> extents) : rank_(static_cast<int>(extents.size())) {
    TRIREME_ASSERT(extents.size() <= static_cast<std::size_t>(kMaxRank), "a shape of rank ", extents.size());
    std::copy(extents.begin(), extents.end(), extents_.begin());
}

std::int64_t Shape::elements() const {
    std::int64_t product = 1;
    for (const std::int64_t extent : extents())
        product *= extent;
    return product;
}

std::string Shape::text() const {
    std::string out = "[";
    for (int axis = 0; axis < rank_; ++axis)
        out += concat(axis == 0 ? "" : ", ", (*this)[axis]);
    return out + "]";
}

Tensor Tensor::reshaped(const Shape& shape) const {
    TRIREME_ASSERT(shape.elements() == shape_.elements(), shape_.text(), " cannot be seen as ", shape.text());
    return {data_, shape, type_};
}

Tensor Tensor::rows(std::int64_t first, std::int64_t count) const {
    TRIREME_ASSERT(shape_.rank() > 0 && first >= 0 && count >= 0 && first + count <= shape_[0], "rows ",
                   first, " + ", count, " of ", shape_.text());
    std::array<std::int64_t, Shape::kMaxRank> extents{};
    std::ranges::copy(shape_.extents(), extents.begin());
    const std::int64_t row_bytes = shape_[0] == 0 ? 0 : shape_.elements() / shape_[0] * size_bytes(type_);
    extents[0] = count;
    return {static_cast<std::byte*>(data_) + first * row_bytes,
            Shape(std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(shape_.rank()))),
            type_};
}

Tensor Tensor::flat(std::int64_t first, std::int64_t count) const {
    TRIREME_ASSERT(first >= 0 && count >= 0 && first + count <= shape_.elements(), "elements ", first, " + ",
                   count, " of ", shape_.text());
    return {static_cast<std::byte*>(data_) + first * size_bytes(type_), Shape{count}, type_};
}

} // namespace trireme
