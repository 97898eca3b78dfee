// The list of planned tensors.
#include "trireme/memory/plan.hpp"

#include <array>
#include <utility>

#include "trireme/base/error.hpp"
#include "trireme/base/sizes.hpp"

namespace trireme::memory {

std::string_view name(Category category) {
    constexpr std::array<std::string_view, kCategories> kNames{"weights",     "gradients",    "optimizer",
                                                               "activations", "logits",       "buffers",
                                                               "workspace",   "communication"};
    return kNames[static_cast<std::size_t>(category)];
}

Item Plan::add(Category category, std::string name, const Shape& shape, DType type) {
    const std::int64_t bytes = round_up(shape.elements() * size_bytes(type), kAlignment);
    entries_.push_back({category, std::move(name), shape, type, bytes});
    views_.push_back({static_cast<std::int32_t>(entries_.size()) - 1, shape, type});
    return {static_cast<std::int32_t>(views_.size()) - 1};
}

Item Plan::share(Category category, const std::string& name, const Shape& shape, DType type) {
    const auto [known, is_new] =
        shared_.try_emplace(concat(static_cast<int>(category), " ", name), entries_.size());
    if (is_new)
        return add(category, name, shape, type);
    Entry& entry = entries_[known->second];
    const std::int64_t bytes = round_up(shape.elements() * size_bytes(type), kAlignment);
    if (bytes > entry.bytes) {
        entry.shape = shape;
        entry.type = type;
        entry.bytes = bytes;
    }
    views_.push_back({static_cast<std::int32_t>(known->second), shape, type});
    return {static_cast<std::int32_t>(views_.size()) - 1};
}

void Plan::count(Category category, std::string name, std::int64_t bytes) {
    if (bytes > 0)
        entries_.push_back({category, std::move(name), Shape{bytes}, DType::u8, bytes, false});
}

std::int64_t Plan::bytes() const {
    std::int64_t sum = 0;
    for (const Entry& entry : entries_)
        sum += entry.bytes;
    return sum;
}

std::int64_t Plan::bytes(Category category) const {
    std::int64_t sum = 0;
    for (const Entry& entry : entries_)
        sum += entry.category == category ? entry.bytes : 0;
    return sum;
}

} // namespace trireme::memory
