// The gradient norm's sum of squares, the factor that follows from it, and AdamW.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/operations.hpp"
#include "backend/cpu/scratch_needs.hpp"
#include "backend/cpu/stored.hpp"

namespace trireme::backend {
namespace {

constexpr std::int64_t kSquaresBlock = 65536;

// The sum of one block in 16 lanes, then the lanes in order.
template <class T>
double block_of_squares(const T* x, std::int64_t count) {
    constexpr std::int64_t kLanes = 16;
    double lanes[kLanes] = {};
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes)
        for (std::int64_t l = 0; l < kLanes; ++l) {
            const double value = widen(x[i + l]);
            lanes[l] += value * value;
        }
    for (std::int64_t l = 0; i < count; ++i, ++l) {
        const double value = widen(x[i]);
        lanes[l] += value * value;
    }
    double sum = 0;
    for (const double lane : lanes)
        sum += lane;
    return sum;
}

struct AdamConstants {
    double factor, learning_rate, beta1, beta2, correction1, correction2, epsilon, decay;
};

// Master weights of type T beside weights of type W, or alone (W is void), or the rest of them (M is int16)
// beside bf16 weights.
template <class T, class M, class W>
void update(std::int64_t begin, std::int64_t end, const AdamConstants& constants, M* __restrict master,
            const T* __restrict gradient, T* __restrict moment1, T* __restrict moment2,
            W* __restrict weights) {
    constexpr bool kSplit = std::is_same_v<M, std::int16_t>;
    const T factor = static_cast<T>(constants.factor), rate = static_cast<T>(constants.learning_rate);
    const T b1 = static_cast<T>(constants.beta1), b2 = static_cast<T>(constants.beta2);
    const T rest1 = static_cast<T>(1 - constants.beta1), rest2 = static_cast<T>(1 - constants.beta2);
    const T c1 = static_cast<T>(constants.correction1), c2 = static_cast<T>(constants.correction2);
    const T epsilon = static_cast<T>(constants.epsilon), decay = static_cast<T>(constants.decay);
    for (std::int64_t i = begin; i < end; ++i) {
        const T g = gradient[i] * factor;
        const T m = b1 * moment1[i] + rest1 * g;
        const T v = b2 * moment2[i] + rest2 * g * g;
        T before;
        if constexpr (kSplit)
            before = static_cast<float>(SplitFloat(weights[i], master[i]));
        else
            before = master[i];
        const T w = before - rate * ((m / c1) / (std::sqrt(v / c2) + epsilon) + decay * before);
        moment1[i] = m;
        moment2[i] = v;
        if constexpr (kSplit) {
            const SplitFloat split(w);
            master[i] = split.rest;
            weights[i] = split.high;
        } else {
            master[i] = w;
            if constexpr (!std::is_void_v<W>)
                weights[i] = static_cast<W>(w);
        }
    }
}

} // namespace

std::int64_t squares_scratch_bytes(std::int64_t elements) {
    return (elements + kSquaresBlock - 1) / kSquaresBlock * static_cast<std::int64_t>(sizeof(double));
}

void CpuOperations::do_sum_of_squares(const Tensor& x, Tensor result, GradWrite write) {
    dispatch_stored("sum_of_squares", x.type(), [&](auto zero) {
        using T = decltype(zero);
        const std::int64_t count = x.elements(), blocks = (count + kSquaresBlock - 1) / kSquaresBlock;
        scratch_.reserve(squares_scratch_bytes(count));
        double* const partial = scratch_.of<double>(0, 0, blocks).data();
        const T* const from = data<T>(x);
        pool_.parallel_for(count, kSquaresBlock, [=](std::int64_t begin, std::int64_t end, int) {
            partial[begin / kSquaresBlock] = block_of_squares(from + begin, end - begin);
        });
        double sum = 0;
        for (std::int64_t block = 0; block < blocks; ++block)
            sum += partial[block];
        double* const to = writable<double>(result);
        *to = write == GradWrite::accumulate ? *to + sum : sum;
    });
}

// The small constant keeps the quotient finite, as in torch.nn.utils.clip_grad_norm_ and Megatron-LM.
void CpuOperations::do_update_factor(const Tensor& squared_norm, const FactorRule& rule, Tensor factor) {
    const double norm = std::sqrt(*data<double>(squared_norm)) * rule.scale;
    const double clip = rule.clip_norm > 0 ? std::min(1.0, rule.clip_norm / (norm + 1e-6)) : 1.0;
    *writable<double>(factor) =
        std::isfinite(norm) ? rule.scale * clip : std::numeric_limits<double>::quiet_NaN();
}

void CpuOperations::do_adam_update(Tensor master, const Tensor& gradient, Tensor moment1, Tensor moment2,
                                   Tensor weights, const Tensor& factor, const Adam& adam) {
    const double scale = *data<double>(factor);
    if (!std::isfinite(scale))
        return;
    const auto step = static_cast<double>(adam.step);
    const AdamConstants constants{scale,
                                  adam.learning_rate,
                                  adam.beta1,
                                  adam.beta2,
                                  1 - std::pow(adam.beta1, step),
                                  1 - std::pow(adam.beta2, step),
                                  adam.epsilon,
                                  adam.weight_decay};
    dispatch_float("adam_update", gradient.type(), [&](auto zero) {
        using T = decltype(zero);
        const auto update_into = [&](auto* masters, auto* to) {
            T *const m = writable<T>(moment1), *const v = writable<T>(moment2);
            const T* const g = data<T>(gradient);
            pool_.parallel_for(master.elements(), kGrain, [=](std::int64_t begin, std::int64_t end, int) {
                update<T>(begin, end, constants, masters, g, m, v, to);
            });
        };
        if (master.type() == DType::i16)
            update_into(writable<std::int16_t>(master), writable<BFloat16>(weights));
        else if (!weights.defined())
            update_into(writable<T>(master), static_cast<void*>(nullptr));
        else if (is_narrow(weights.type()))
            dispatch_narrow(weights.type(), [&](auto narrow_zero) {
                update_into(writable<T>(master), writable<decltype(narrow_zero)>(weights));
            });
        else
            update_into(writable<T>(master), writable<T>(weights));
    });
}

} // namespace trireme::backend
