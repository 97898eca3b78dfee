// The plan of bytes: what is shared by name, and what is counted without being cut from the arena.
#include <gtest/gtest.h>

#include "trireme/backend/backend.hpp"
#include "trireme/memory/arena.hpp"

namespace trireme::memory {
namespace {

TEST(Plan, SharedItemsTakeTheLargest) {
    Plan plan;
    plan.share(Category::activations, "x", Shape{100}, DType::f32);  // 400 bytes: 512
    plan.share(Category::activations, "x", Shape{1000}, DType::f32); // 4000: 4096
    plan.share(Category::activations, "x", Shape{10}, DType::f32);
    plan.share(Category::buffers, "x", Shape{1}, DType::u8);   // another category, another item
    plan.add(Category::activations, "x", Shape{1}, DType::u8); // never shared
    EXPECT_EQ(plan.bytes(Category::activations), 4096 + 256);
    EXPECT_EQ(plan.bytes(Category::buffers), 256);
    EXPECT_EQ(plan.entries().size(), 3U);
}

TEST(Plan, CountedBytesAreTakenByTheirOwners) {
    const auto backend = backend::make_cpu_backend(1);
    Plan plan;
    plan.count(Category::communication, "mail", 1000);
    const Item item = plan.add(Category::weights, "w", Shape{64}, DType::f32);
    plan.count(Category::workspace, "nothing", 0);
    EXPECT_EQ(plan.bytes(), 1256);
    EXPECT_EQ(plan.bytes(Category::communication), 1000);
    const Arena arena(plan, *backend);
    EXPECT_EQ(arena.bytes(), 256);
    EXPECT_EQ(backend->allocated_bytes(), 256);
    EXPECT_EQ(arena.tensor(item).elements(), 64);
}

} // namespace
} // namespace trireme::memory
