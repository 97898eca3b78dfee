// fill, copy, add, scale. bf16 and fp16 are widened to float, computed and rounded to nearest even.
#include <type_traits>

#include "backend/cpu/operations.hpp"
#include "backend/cpu/stored.hpp"

namespace trireme::backend {
namespace {

template <class To, class From>
To convert(From value) {
    if constexpr (std::is_same_v<To, From>)
        return value;
    else if constexpr (kIsNarrow<To>)
        return To(static_cast<float>(value));
    else if constexpr (kIsNarrow<From>)
        return static_cast<To>(static_cast<float>(value));
    else
        return static_cast<To>(value);
}

template <class T>
void fill_values(ThreadPool& pool, const Tensor& x, double value) {
    T* const to = writable<T>(x);
    const T filling = [&] {
        if constexpr (kIsNarrow<T>)
            return convert<T>(value);
        else
            return static_cast<T>(value);
    }();
    pool.parallel_for(x.elements(), kGrain, [=](std::int64_t begin, std::int64_t end, int) {
        std::fill(to + begin, to + end, filling);
    });
}

} // namespace

void CpuOperations::do_fill(Tensor x, double value) {
    switch (x.type()) {
    case DType::f32:
        return fill_values<float>(pool_, x, value);
    case DType::f64:
        return fill_values<double>(pool_, x, value);
    case DType::bf16:
        return fill_values<BFloat16>(pool_, x, value);
    case DType::f16:
        return fill_values<Float16>(pool_, x, value);
    case DType::i32:
        return fill_values<std::int32_t>(pool_, x, value);
    case DType::i64:
        return fill_values<std::int64_t>(pool_, x, value);
    case DType::u8:
        return fill_values<std::uint8_t>(pool_, x, value);
    case DType::i16:
        return fill_values<std::int16_t>(pool_, x, value);
    }
}

void CpuOperations::do_copy(const Tensor& from, Tensor to) {
    if (from.type() == to.type()) {
        const auto* const source = static_cast<const std::byte*>(from.data());
        auto* const target = static_cast<std::byte*>(to.data());
        return pool_.parallel_for(from.bytes(), 8 * kGrain, [=](std::int64_t begin, std::int64_t end, int) {
            std::copy(source + begin, source + end, target + begin);
        });
    }
    dispatch_stored("copy", from.type(), [&](auto from_zero) {
        dispatch_stored("copy", to.type(), [&](auto to_zero) {
            using From = decltype(from_zero);
            using To = decltype(to_zero);
            const From* const source = data<From>(from);
            To* const target = writable<To>(to);
            pool_.parallel_for(from.elements(), kGrain, [=](std::int64_t begin, std::int64_t end, int) {
                for (std::int64_t i = begin; i < end; ++i)
                    target[i] = convert<To>(source[i]);
            });
        });
    });
}

void CpuOperations::do_add(const Tensor& x, Tensor y) {
    dispatch_stored("add", x.type(), [&](auto x_zero) {
        dispatch_stored("add", y.type(), [&](auto y_zero) {
            using X = decltype(x_zero);
            using Y = decltype(y_zero);
            using Sum = std::common_type_t<Wide<X>, Wide<Y>>;
            const X* const from = data<X>(x);
            Y* const to = writable<Y>(y);
            pool_.parallel_for(x.elements(), kGrain, [=](std::int64_t begin, std::int64_t end, int) {
                for (std::int64_t i = begin; i < end; ++i)
                    to[i] = convert<Y>(convert<Sum>(to[i]) + convert<Sum>(from[i]));
            });
        });
    });
}

void CpuOperations::do_scale(Tensor x, double factor) {
    dispatch_stored("scale", x.type(), [&](auto zero) {
        using T = decltype(zero);
        T* const to = writable<T>(x);
        const auto by = static_cast<Wide<T>>(factor);
        pool_.parallel_for(x.elements(), kGrain, [=](std::int64_t begin, std::int64_t end, int) {
            for (std::int64_t i = begin; i < end; ++i)
                to[i] = convert<T>(convert<Wide<T>>(to[i]) * by);
        });
    });
}

} // namespace trireme::backend
