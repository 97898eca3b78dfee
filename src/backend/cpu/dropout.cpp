// Dropout with bias and residual on hidden states, its gradient, and the drawing of masks.
#include <type_traits>

#include "backend/cpu/dropout_mask.hpp"
#include "backend/cpu/operations.hpp"
#include "backend/cpu/stored.hpp"

namespace trireme::backend {

// Philox4x32-10 as in base/philox.hpp, for kBatch / 4 counters at once.
void DropoutMask::draw(std::int64_t position, std::int64_t block,
                       std::array<std::uint32_t, kBatch>& words) const {
    constexpr std::size_t kBlocks = kBatch / 4;
    constexpr std::uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
    constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
    std::array<std::uint32_t, kBlocks> c0, c1, c2, c3;
    for (std::size_t i = 0; i < kBlocks; ++i) {
        c0[i] = static_cast<std::uint32_t>(block) + static_cast<std::uint32_t>(i);
        c1[i] = static_cast<std::uint32_t>(position);
        c2[i] = counter_[2];
        c3[i] = counter_[3];
    }
    PhiloxKey key = key_;
    for (int round = 0; round < 10; ++round) {
        for (std::size_t i = 0; i < kBlocks; ++i) {
            const std::uint64_t product0 = kMultiplier0 * c0[i], product1 = kMultiplier1 * c2[i];
            c0[i] = static_cast<std::uint32_t>(product1 >> 32) ^ c1[i] ^ key[0];
            c1[i] = static_cast<std::uint32_t>(product1);
            c2[i] = static_cast<std::uint32_t>(product0 >> 32) ^ c3[i] ^ key[1];
            c3[i] = static_cast<std::uint32_t>(product0);
        }
        key[0] += kWeyl0;
        key[1] += kWeyl1;
    }
    for (std::size_t i = 0; i < kBlocks; ++i) {
        words[4 * i] = c0[i];
        words[4 * i + 1] = c1[i];
        words[4 * i + 2] = c2[i];
        words[4 * i + 3] = c3[i];
    }
}

namespace {

// visit(r, c, multiplier) for each element of [T, B, C], where row r is t * B + b.
template <class T, class Visit>
void for_each_hidden(ThreadPool& pool, const Shape& shape, const Dropout& dropout, const Visit& visit) {
    const std::int64_t batch = shape[1], width = shape[2];
    const std::int64_t grain = rows_per_chunk(dropout.probability == 0 ? width : 4 * width);
    pool.parallel_for(shape[0] * batch, grain, [&, batch, width](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t r = begin; r < end; ++r) {
            if (dropout.probability == 0) {
                for (std::int64_t c = 0; c < width; ++c)
                    visit(r, c, std::integral_constant<int, 1>{});
                continue;
            }
            const DropoutMask mask(dropout, r % batch, 0);
            mask.for_each<T>(dropout.first_position + r / batch, 0, width,
                             [&](std::int64_t c, T multiplier) { visit(r, c, multiplier); });
        }
    });
}

} // namespace

void CpuOperations::do_bias_dropout_residual(const Tensor& x, const Tensor& bias, const Tensor& residual,
                                             const Dropout& dropout, Tensor out) {
    dispatch_stored("bias_dropout_residual", x.type(), [&](auto zero) {
        using S = decltype(zero);
        using T = Wide<S>;
        const std::int64_t width = x.shape()[2];
        const S* const from = data<S>(x);
        S* const to = writable<S>(out);
        const S* const shift = bias.defined() ? data<S>(bias) : nullptr;
        const S* const carried = residual.defined() ? data<S>(residual) : nullptr;
        for_each_hidden<T>(pool_, x.shape(), dropout, [=](std::int64_t r, std::int64_t c, auto multiplier) {
            const std::int64_t i = r * width + c;
            const T value = (shift == nullptr ? widen(from[i]) : widen(from[i]) + widen(shift[c])) *
                            static_cast<T>(multiplier);
            to[i] = narrow<S>(carried == nullptr ? value : widen(carried[i]) + value);
        });
    });
}

void CpuOperations::do_dropout_gradient(const Tensor& grad_out, const Dropout& dropout, Tensor grad_x) {
    dispatch_stored("dropout_gradient", grad_out.type(), [&](auto zero) {
        using S = decltype(zero);
        using T = Wide<S>;
        const std::int64_t width = grad_out.shape()[2];
        const S* const from = data<S>(grad_out);
        S* const to = writable<S>(grad_x);
        for_each_hidden<T>(
            pool_, grad_out.shape(), dropout, [=](std::int64_t r, std::int64_t c, auto multiplier) {
                to[r * width + c] = narrow<S>(widen(from[r * width + c]) * static_cast<T>(multiplier));
            });
    });
}

} // namespace trireme::backend
