// fill, copy, add, scale. bf16 and fp16 are widened to float, computed and rounded to nearest even.
#include "backend/cuda/kernels.cuh"
#include "backend/cuda/operations.hpp"

namespace trireme::backend {
namespace {

// The type that sums of A and B are computed in.
template <class A, class B>
using Wide = std::conditional_t<std::is_same_v<A, double> || std::is_same_v<B, double>, double, float>;

template <class To, class From>
__device__ To convert(From value) {
    if constexpr (std::is_same_v<To, From>)
        return value;
    else if constexpr (sizeof(From) == 2)
        return convert<To>(widen(value));
    else if constexpr (sizeof(To) == 2)
        return narrow<To>(static_cast<float>(value));
    else
        return static_cast<To>(value);
}

template <class T, class Value>
__global__ void fill_kernel(T* to, std::int64_t count, Value value) {
    const std::int64_t i = global_thread();
    if (i < count)
        to[i] = convert<T>(value);
}

template <class From, class To>
__global__ void copy_kernel(const From* from, To* to, std::int64_t count) {
    const std::int64_t i = global_thread();
    if (i < count)
        to[i] = convert<To>(from[i]);
}

template <class X, class Y>
__global__ void add_kernel(const X* x, Y* y, std::int64_t count) {
    using Number = Wide<X, Y>;
    const std::int64_t i = global_thread();
    if (i < count)
        y[i] = convert<Y>(convert<Number>(y[i]) + convert<Number>(x[i]));
}

template <class T>
__global__ void scale_kernel(T* x, std::int64_t count, Wide<T, T> factor) {
    const std::int64_t i = global_thread();
    if (i < count)
        x[i] = convert<T>(convert<Wide<T, T>>(x[i]) * factor);
}

} // namespace

void CudaOperations::do_fill(Tensor x, double value) {
    if (x.elements() == 0)
        return;
    if (value == 0) {
        check(cudaMemsetAsync(x.data(), 0, static_cast<std::size_t>(x.bytes()), stream_), "fill with zeros");
        return;
    }
    const unsigned blocks = blocks_for(x.elements(), kThreads);
    const auto launch = [&](auto zero, auto of_type) {
        using T = decltype(zero);
        fill_kernel<<<blocks, kThreads, 0, stream_>>>(writable<T>(x), x.elements(), of_type);
        check_launch("fill");
    };
    switch (x.type()) {
    case DType::f32:
        return launch(float{}, static_cast<float>(value));
    case DType::f64:
        return launch(double{}, value);
    case DType::bf16:
        return launch(bf16{}, static_cast<float>(value));
    case DType::f16:
        return launch(fp16{}, static_cast<float>(value));
    case DType::i32:
        return launch(std::int32_t{}, static_cast<std::int32_t>(value));
    case DType::i64:
        return launch(std::int64_t{}, static_cast<std::int64_t>(value));
    case DType::u8:
        return launch(std::uint8_t{}, static_cast<std::uint8_t>(value));
    case DType::i16:
        return launch(std::int16_t{}, static_cast<std::int16_t>(value));
    }
}

void CudaOperations::do_copy(const Tensor& from, Tensor to) {
    if (from.elements() == 0)
        return;
    if (from.type() == to.type()) {
        check(cudaMemcpyAsync(to.data(), from.data(), static_cast<std::size_t>(from.bytes()),
                              cudaMemcpyDeviceToDevice, stream_),
              "copy on the device");
        return;
    }
    dispatch_stored("copy", from.type(), [&](auto from_zero) {
        dispatch_stored("copy", to.type(), [&](auto to_zero) {
            using From = decltype(from_zero);
            using To = decltype(to_zero);
            copy_kernel<<<blocks_for(from.elements(), kThreads), kThreads, 0, stream_>>>(
                data<From>(from), writable<To>(to), from.elements());
            check_launch("copy");
        });
    });
}

void CudaOperations::do_add(const Tensor& x, Tensor y) {
    if (x.elements() == 0)
        return;
    dispatch_stored("add", x.type(), [&](auto x_zero) {
        dispatch_stored("add", y.type(), [&](auto y_zero) {
            using X = decltype(x_zero);
            using Y = decltype(y_zero);
            add_kernel<<<blocks_for(x.elements(), kThreads), kThreads, 0, stream_>>>(
                data<X>(x), writable<Y>(y), x.elements());
            check_launch("add");
        });
    });
}

void CudaOperations::do_scale(Tensor x, double factor) {
    if (x.elements() == 0)
        return;
    dispatch_stored("scale", x.type(), [&](auto zero) {
        using T = decltype(zero);
        scale_kernel<<<blocks_for(x.elements(), kThreads), kThreads, 0, stream_>>>(
            writable<T>(x), x.elements(), static_cast<Wide<T, T>>(factor));
        check_launch("scale");
    });
}

} // namespace trireme::backend
