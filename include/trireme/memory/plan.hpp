// The named plan of bytes. Every component declares what it needs here before anything is allocated; the run
// cuts one arena from the plan and `trireme plan` prints it, so planned and taken bytes are the same numbers.
//
//     Plan plan;
//     const Item logits = plan.add(Category::logits, "logits", Shape{512, 1000}, DType::f32);
//     Arena arena(plan, allocator);                 // one allocation for everything
//     Tensor t = arena.tensor(logits);              // where it lies
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trireme/tensor/tensor.hpp"

namespace trireme::memory {

enum class Category : std::uint8_t {
    weights,
    gradients,
    optimizer,
    activations,
    logits,
    buffers,
    workspace,
    communication
};
inline constexpr int kCategories = 8;
std::string_view name(Category category);

// A handle of one planned tensor. Default-constructed: nothing (an arena gives an undefined Tensor for it).
struct Item {
    std::int32_t index = -1;
};

class Plan {
  public:
    struct Entry {
        Category category;
        std::string name;
        Shape shape;
        DType type;
        std::int64_t bytes; // rounded up to kAlignment
        bool in_arena = true;
    };
    static constexpr std::int64_t kAlignment = 256; // bytes

    // A tensor of its own for the whole run.
    Item add(Category category, std::string name, const Shape& shape, DType type);

    // A scratch tensor that all who name it share: the first call plans it, later ones get the same bytes
    // (shape and type may differ; the entry grows to the largest). Whoever shares a name must not need it at
    // the same time.
    Item share(Category category, const std::string& name, const Shape& shape, DType type);

    // Bytes that their owner takes from the same allocator by itself, at start: they count here, the arena
    // leaves them out.
    void count(Category category, std::string name, std::int64_t bytes);

    std::span<const Entry> entries() const { return entries_; }
    std::int64_t bytes() const;
    std::int64_t bytes(Category category) const;

  private:
    friend class Arena;
    struct View { // what an Item stands for: an entry seen under a shape
        std::int32_t entry;
        Shape shape;
        DType type;
    };
    std::vector<Entry> entries_;
    std::vector<View> views_;
    std::unordered_map<std::string, std::size_t> shared_; // entries by category and name
};

} // namespace trireme::memory
