// fill, copy, add, scale: exact values, conversions between all float types, NaN.
#include "cases.hpp"

namespace trireme::test {
namespace {

TEST(Elementwise, FillWritesEveryType) {
    const auto cpu = backend::make_cpu_backend(2);
    Array<double> d(Shape{20001});
    Array<BFloat16> b(Shape{3});
    Array<std::int32_t> i(Shape{5});
    cpu->compute().fill(d.tensor(), 0.1);
    cpu->compute().fill(b.tensor(), 1.5);
    cpu->compute().fill(i.tensor(), -7);
    for (const double value : d.values)
        EXPECT_EQ(value, 0.1);
    for (const BFloat16 value : b.values)
        EXPECT_EQ(value.bits, 0x3FC0);
    for (const std::int32_t value : i.values)
        EXPECT_EQ(value, -7);
}

TEST(Elementwise, CopyConverts) {
    const auto cpu = backend::make_cpu_backend(2);
    auto d = random_array<double>(Shape{9001}, 1, 100);
    d.values[17] = std::numeric_limits<double>::quiet_NaN();
    Array<float> f(Shape{9001});
    cpu->compute().copy(d.tensor(), f.tensor());
    Array<BFloat16> b(Shape{9001});
    cpu->compute().copy(f.tensor(), b.tensor());
    Array<float> back(Shape{9001});
    cpu->compute().copy(b.tensor(), back.tensor());
    for (std::size_t i = 0; i < d.values.size(); ++i) {
        if (i == 17) {
            EXPECT_TRUE(std::isnan(f.values[i]) && std::isnan(back.values[i]));
            continue;
        }
        EXPECT_EQ(f.values[i], static_cast<float>(d.values[i]));
        // bf16 has 8 bits of mantissa: half a unit in the last place is 2^-9 of the value.
        EXPECT_LE(std::abs(back.values[i] - f.values[i]), std::abs(f.values[i]) * 0x1.0p-8F);
        EXPECT_EQ(std::bit_cast<std::uint32_t>(back.values[i]) & 0xFFFFU, 0U);
    }
}

TEST(Elementwise, CopyKeepsIntegersAndRefusesToConvertThem) {
    const auto cpu = backend::make_cpu_backend(1);
    Array<std::int64_t> from(Shape{3}), to(Shape{3});
    from.values = {1, -(std::int64_t{1} << 40), 3};
    cpu->compute().copy(from.tensor(), to.tensor());
    EXPECT_EQ(from.values, to.values);
    Array<float> f(Shape{3});
    EXPECT_THROW(cpu->compute().copy(from.tensor(), f.tensor()), Error);
}

TEST(Elementwise, AddMixesTypes) {
    const auto cpu = backend::make_cpu_backend(2);
    auto x = random_array<float>(Shape{9001}, 2);
    auto y = random_array<double>(Shape{9001}, 3);
    const auto before = y;
    cpu->compute().add(x.tensor(), y.tensor());
    for (std::size_t i = 0; i < y.values.size(); ++i)
        EXPECT_EQ(y.values[i], before.values[i] + static_cast<double>(x.values[i]));
    Array<BFloat16> b(Shape{9001}, BFloat16(1.0F));
    auto z = x;
    cpu->compute().add(b.tensor(), z.tensor());
    for (std::size_t i = 0; i < z.values.size(); ++i)
        EXPECT_EQ(z.values[i], x.values[i] + 1.0F);
    cpu->compute().add(x.tensor(), b.tensor());
    for (std::size_t i = 0; i < z.values.size(); ++i)
        EXPECT_EQ(b.values[i].bits, BFloat16(x.values[i] + 1.0F).bits);
}

TEST(Elementwise, ScaleMultipliesAndKeepsNan) {
    const auto cpu = backend::make_cpu_backend(2);
    auto x = random_array<float>(Shape{9001}, 4);
    x.values[5] = std::numeric_limits<float>::quiet_NaN();
    const auto before = x;
    cpu->compute().scale(x.tensor(), 0.3);
    for (std::size_t i = 0; i < x.values.size(); ++i)
        if (i == 5)
            EXPECT_TRUE(std::isnan(x.values[i]));
        else
            EXPECT_EQ(x.values[i], before.values[i] * 0.3F);
}

TEST(Memory, CountsWhatIsTakenAndStaysConstantInSteadyState) {
    const auto cpu = backend::make_cpu_backend(2);
    const std::int64_t at_start = cpu->allocated_bytes();
    void* data = cpu->allocate(1000);
    EXPECT_EQ(cpu->allocated_bytes(), at_start + 1000);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 256, 0U);
    for (int i = 0; i < 1000; ++i)
        EXPECT_EQ(static_cast<const unsigned char*>(data)[i], 0);
    cpu->release(data, 1000);
    EXPECT_EQ(cpu->allocated_bytes(), at_start);

    auto x = random_array<double>(Shape{300000}, 5);
    Array<double> result(Shape{1});
    cpu->compute().sum_of_squares(x.tensor(), result.tensor(), backend::GradWrite::overwrite);
    const std::int64_t calls = cpu->allocations(), bytes = cpu->allocated_bytes();
    EXPECT_GT(bytes, at_start); // the scratch of the partial sums is counted
    for (int i = 0; i < 3; ++i)
        cpu->compute().sum_of_squares(x.tensor(), result.tensor(), backend::GradWrite::overwrite);
    EXPECT_EQ(cpu->allocations(), calls);
    EXPECT_EQ(cpu->allocated_bytes(), bytes);
}

TEST(Memory, SaysWhatItIs) {
    EXPECT_EQ(backend::make_cpu_backend(2)->description().rfind("CPU, 2 threads, ", 0), 0U);
    EXPECT_EQ(backend::make_cpu_backend(1)->description().rfind("CPU, 1 thread, ", 0), 0U);
    EXPECT_THROW(backend::make_cpu_backend(0), Error);
}

TEST(Checks, NameOperationRuleAndShapes) {
    const auto cpu = backend::make_cpu_backend(1);
    Array<float> x(Shape{4, 8}), weight(Shape{3, 7}), y(Shape{4, 3});
    try {
        cpu->compute().linear_forward(x.tensor(), weight.tensor(), {}, y.tensor());
        FAIL() << "accepted";
    } catch (const Error& error) {
        EXPECT_EQ(error.category(), ErrorCategory::internal);
        const std::string message = error.message();
        for (const char* part : {"linear_forward", "weight [3, 7] fp32", "x [4, 8] fp32", "bias undefined"})
            EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
    }
    Array<double> wrong_type(Shape{3, 8});
    EXPECT_THROW(cpu->compute().linear_forward(x.tensor(), wrong_type.tensor(), {}, y.tensor()), Error);
    EXPECT_THROW(cpu->compute().gelu_forward(x.tensor(), {}), Error);
    Array<std::int32_t> integers(Shape{4, 8});
    EXPECT_THROW(cpu->compute().gelu_forward(integers.tensor(), integers.tensor()), Error);
}

} // namespace
} // namespace trireme::test
