// Runs one operation three times on the same inputs: in fp64 on the CPU (the truth), in fp32 on the CPU and
// rounded to the type of the result (a plain computation), and on the GPU. The GPU may be twice as far from
// the truth as the plain one.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/tolerance.hpp"
#include "trireme/backend/backend.hpp"

namespace trireme::test {

// What a buffer holds: act(ivations), main gradients and stat(istics) as in ops.hpp, or one fixed type.
enum class Holds : std::uint8_t { act, main, stat, i32, f64 };
enum class Flow : std::uint8_t { in, out, in_out };

struct Buffer {
    Holds holds = Holds::act;
    Flow flow = Flow::in;
    Shape shape;
    double low = -1, high = 1; // uniform; integers for i32
};

using Call = std::function<void(backend::Operations&, std::vector<Tensor>&)>;

// The GPU of this process, or null without one.
inline backend::Backend* gpu() {
    static const std::unique_ptr<backend::Backend> made = [] {
        std::unique_ptr<backend::Backend> backend;
        try {
            backend = backend::make_backend({.device = backend::Device::cuda});
        } catch (const Error&) {
        }
        return backend;
    }();
    return made.get();
}

inline DType type_of(Holds holds, DType act) {
    switch (holds) {
    case Holds::act:
        return act;
    case Holds::main:
    case Holds::stat:
        return statistics_type(act);
    case Holds::i32:
        return DType::i32;
    case Holds::f64:
        return DType::f64;
    }
    return act;
}

inline double rounded_to(DType type, double value) {
    if (type == DType::bf16)
        return static_cast<double>(static_cast<float>(BFloat16(static_cast<float>(value))));
    return type == DType::f32 ? static_cast<double>(static_cast<float>(value)) : value;
}

// Values as bytes of `type`, and back.
inline std::vector<std::byte> encode(const std::vector<double>& values, DType type) {
    const auto width = static_cast<std::size_t>(size_bytes(type));
    std::vector<std::byte> bytes(values.size() * width);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const auto put = [&](auto value) { std::memcpy(bytes.data() + i * width, &value, sizeof value); };
        if (type == DType::f64)
            put(values[i]);
        else if (type == DType::f32)
            put(static_cast<float>(values[i]));
        else if (type == DType::bf16)
            put(BFloat16(static_cast<float>(values[i])));
        else
            put(static_cast<std::int32_t>(values[i]));
    }
    return bytes;
}
inline std::vector<double> decode(const std::vector<std::byte>& bytes, DType type) {
    const auto width = static_cast<std::size_t>(size_bytes(type));
    std::vector<double> values(bytes.size() / width);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const auto get = [&](auto value) {
            std::memcpy(&value, bytes.data() + i * width, sizeof value);
            return value;
        };
        if (type == DType::f64)
            values[i] = get(double{});
        else if (type == DType::f32)
            values[i] = static_cast<double>(get(float{}));
        else if (type == DType::bf16)
            values[i] = static_cast<double>(static_cast<float>(get(BFloat16{})));
        else
            values[i] = get(std::int32_t{});
    }
    return values;
}

// One set of values per buffer.
using Values = std::vector<std::vector<double>>;

inline Values draw(const std::vector<Buffer>& buffers, unsigned seed) {
    Values all;
    std::mt19937 words(seed);
    for (const Buffer& buffer : buffers) {
        std::vector<double> values(static_cast<std::size_t>(buffer.shape.elements()));
        for (double& value : values) {
            value = buffer.low + (buffer.high - buffer.low) * words() * 0x1.0p-32;
            if (buffer.holds == Holds::i32)
                value = std::floor(value);
            if (buffer.flow == Flow::out)
                value = std::nan(""); // must be overwritten
        }
        all.push_back(std::move(values));
    }
    return all;
}

// Runs `call` on a backend whose activations have type `act`; returns what all buffers hold afterwards. With
// Address::odd every tensor lies one element behind a 256-byte boundary.
enum class Address : std::uint8_t { aligned, odd };
inline Values run(backend::Backend& on, DType act, const std::vector<Buffer>& buffers, const Values& inputs,
                  const Call& call, Address address = Address::aligned) {
    std::vector<Tensor> tensors;
    std::vector<std::pair<void*, std::int64_t>> taken;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        const DType type = type_of(buffers[i].holds, act);
        std::vector<std::byte> bytes = encode(inputs[i], type);
        const auto size = static_cast<std::int64_t>(bytes.size());
        const std::int64_t shift = address == Address::odd ? size_bytes(type) : 0;
        taken.emplace_back(on.allocate(size + shift), size + shift);
        const Tensor tensor(static_cast<std::byte*>(taken.back().first) + shift, buffers[i].shape, type);
        on.copy_to_device(Tensor(bytes.data(), buffers[i].shape, type), tensor);
        tensors.push_back(tensor);
    }
    call(on.compute(), tensors);
    Values results;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        std::vector<std::byte> bytes(static_cast<std::size_t>(tensors[i].bytes()));
        on.copy_to_host(tensors[i], Tensor(bytes.data(), buffers[i].shape, tensors[i].type()));
        results.push_back(decode(bytes, tensors[i].type()));
    }
    for (const auto& [data, size] : taken)
        on.release(data, size);
    return results;
}

// 2 x the error of the plain result. The plain loop may be lucky in fp32 and fp64, which have no rounding
// store: at least two units in the last place of the largest value, or in fp64 64 (two orders of some hundred
// additions). fp32 results of bf16 inputs may use fast exponentials: 2^-16, a 128th of bf16's rounding.
inline long double bound_for(DType act, DType type, const std::vector<double>& plain,
                             const std::vector<double>& truth) {
    long double error = 0;
    for (std::size_t i = 0; i < plain.size(); ++i)
        error = std::max<long double>(error, std::abs(plain[i] - truth[i]));
    const long double least = type == DType::bf16  ? 0
                              : type == DType::f64 ? 64 * 0x1.0p-52L
                              : act == DType::bf16 ? 0x1.0p-16L
                                                   : 2 * 0x1.0p-23L;
    return 2 * error + least * largest(truth);
}

// Compares on bf16 and fp32, at aligned and odd addresses, and that a second run gives the same bits. `plain`
// replaces the plain computation for operations whose inner values a bf16 computation would round too.
// `prepare` changes the inputs drawn.
using Plain = std::function<Values(DType, const Values&)>;
using Prepare = std::function<void(Values&)>;
inline void compare(const std::string& what, const std::vector<Buffer>& buffers, const Call& call,
                    const Plain& plain = {}, const Prepare& prepare = {}) {
    const std::unique_ptr<backend::Backend> cpu = backend::make_cpu_backend(2);
    for (const DType act : {DType::bf16, DType::f32}) {
        Values inputs = draw(buffers, 1);
        for (std::size_t i = 0; i < buffers.size(); ++i)
            for (double& value : inputs[i])
                value = rounded_to(type_of(buffers[i].holds, act), value);
        if (prepare)
            prepare(inputs);
        const Values truth = run(*cpu, DType::f64, buffers, inputs, call);
        Values simple = plain ? plain(act, inputs) : run(*cpu, DType::f32, buffers, inputs, call);
        const Values got = run(*gpu(), act, buffers, inputs, call);
        const Values again = run(*gpu(), act, buffers, inputs, call);
        const Values shifted = run(*gpu(), act, buffers, inputs, call, Address::odd);
        for (std::size_t i = 0; i < buffers.size(); ++i) {
            if (buffers[i].flow == Flow::in)
                continue;
            const DType type = type_of(buffers[i].holds, act);
            for (double& value : simple[i])
                value = rounded_to(type, value);
            const long double bound = bound_for(act, type, simple[i], truth[i]);
            EXPECT_TRUE(within(got[i], truth[i], bound)) << what << ", " << name(act) << ", buffer " << i;
            EXPECT_TRUE(within(again[i], got[i], 0))
                << what << ", " << name(act) << ", second run, buffer " << i;
            EXPECT_TRUE(within(shifted[i], truth[i], bound))
                << what << ", " << name(act) << ", odd address, buffer " << i;
        }
    }
}

} // namespace trireme::test
