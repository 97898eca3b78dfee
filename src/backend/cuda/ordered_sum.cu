// The sum that makes a reduction of copies.
#include "backend/cuda/kernels.cuh"
#include "backend/cuda/ordered_sum.hpp"

namespace trireme::backend {
namespace {

// A thread takes kPack neighbours of all ranks.
template <int kPack>
__global__ void ordered_sum_kernel(const float* own, int rank, const float* received, std::int64_t stride,
                                   int others, float* to, std::int64_t elements) {
    const std::int64_t first = kPack * (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x);
    if (first >= elements)
        return;
    float mine[kPack], sum[kPack];
    load<kPack>(own + first, mine);
    for (int r = 0; r <= others; ++r) {
        float x[kPack];
        if (r != rank)
            load<kPack>(received + (r < rank ? r : r - 1) * stride + first, x);
#pragma unroll
        for (int i = 0; i < kPack; ++i) {
            const float value = r == rank ? mine[i] : x[i];
            sum[i] = r == 0 ? value : sum[i] + value;
        }
    }
    store<kPack>(to + first, sum);
}

} // namespace

void ordered_sum(const float* own, int rank, const float* received, std::int64_t stride, int others,
                 float* to, std::int64_t elements, cudaStream_t stream) {
    if (elements == 0)
        return;
    const auto aligned = [](const float* address) {
        return reinterpret_cast<std::uintptr_t>(address) % 16 == 0;
    };
    const bool packs =
        aligned(own) && aligned(received) && aligned(to) && stride % 4 == 0 && elements % 4 == 0;
    cuda::dispatch_packs<float>(packs, [&](auto pack) {
        constexpr int kPack = decltype(pack)::value;
        const unsigned blocks = cuda::blocks_for(elements, std::int64_t{kPack} * kThreads);
        ordered_sum_kernel<kPack>
            <<<blocks, kThreads, 0, stream>>>(own, rank, received, stride, others, to, elements);
        check_launch("ordered sum");
    });
}

} // namespace trireme::backend
