// The dry backend foresees the scratch that the CPU backend takes, operation by operation: here those that
// the layout tests' tiny model uses at sizes where nothing else is larger.
#include <gtest/gtest.h>

#include <vector>

#include "trireme/backend/dry.hpp"

namespace trireme::backend {
namespace {

// The scratch of `run(backend)` beside `tensors` of its own memory.
template <class Run>
void expect_foreseen(int threads, const Run& run) {
    DryBackend dry(Device::cpu, threads);
    run(dry);
    const auto real = make_cpu_backend(threads);
    run(*real);
    EXPECT_EQ(real->allocated_bytes() - dry.allocated_bytes(), dry.scratch_bytes());
    EXPECT_GT(dry.scratch_bytes(), 0);
}

Tensor tensor(Backend& backend, const Shape& shape, DType type) {
    return {backend.allocate(shape.elements() * size_bytes(type)), shape, type};
}

TEST(DryBackend, ForeseesTheScratchOfTheCpu) {
    for (const int threads : {1, 3})
        for (const DType type : {DType::f32, DType::f64, DType::bf16}) {
            const DType main = statistics_type(type);
            expect_foreseen(threads, [&](Backend& backend) { // sums of columns
                backend.compute().bias_gradient(tensor(backend, {300, 70}, type), tensor(backend, {70}, main),
                                                GradWrite::overwrite);
            });
            expect_foreseen(threads, [&](Backend& backend) {
                backend.compute().sum_of_squares(tensor(backend, {200'000}, main),
                                                 tensor(backend, {1}, DType::f64), GradWrite::overwrite);
            });
            const Attention attention{.heads = 2, .groups = 1, .head_dim = 16, .scale = 0.25, .dropout = {}};
            const Shape qkv{100, 2, 4, 16}, out{100, 2, 2, 16}, sums{2, 2, 100};
            expect_foreseen(threads, [&](Backend& backend) {
                backend.compute().attention_forward(tensor(backend, qkv, type), attention,
                                                    tensor(backend, out, type), tensor(backend, sums, main));
            });
            expect_foreseen(threads, [&](Backend& backend) {
                backend.compute().attention_input_gradient(
                    tensor(backend, out, type), tensor(backend, qkv, type), tensor(backend, out, type),
                    tensor(backend, sums, main), attention, tensor(backend, qkv, type));
            });
        }
    expect_foreseen(2, [](Backend& backend) { // bf16 operands are widened
        backend.compute().linear_forward(tensor(backend, {900, 1100}, DType::bf16),
                                         tensor(backend, {1700, 1100}, DType::bf16), {},
                                         tensor(backend, {900, 1700}, DType::bf16));
    });
    expect_foreseen(2, [](Backend& backend) {
        backend.compute().linear_weight_gradient(
            tensor(backend, {900, 1100}, DType::bf16), tensor(backend, {900, 1700}, DType::bf16),
            tensor(backend, {1700, 1100}, DType::f32), GradWrite::overwrite);
    });
}

} // namespace
} // namespace trireme::backend
