// What the attention kernels for Hopper look up: which weights dropout keeps, drawn once for all kernels of a
// pass, and for the gradients what each query needs besides its vectors.
#include "backend/cuda/attention_hopper.cuh"
#include "backend/cuda/scratch_needs.hpp"

namespace trireme::backend {
namespace {

using namespace hopper;

// Grid: queries, words of 32 keys, heads and batch. A word's layout stands at KeptTable.
__global__ void __launch_bounds__(kPadded) draw_kernel(AttentionSizes s, int padded, std::uint32_t* words) {
    const int query = static_cast<int>(blockIdx.x * kPadded + threadIdx.x),
              key = 32 * static_cast<int>(blockIdx.y);
    if (s.causal && key > query)
        return; // not seen, and not looked at
    const std::int64_t head = blockIdx.z % s.heads, b = blockIdx.z / s.heads;
    std::uint32_t word = 0;
#pragma unroll
    for (int block = 0; block < 8; ++block) {
        const std::uint32_t bits =
            s.dropout.kept(b, static_cast<std::uint32_t>(query), static_cast<std::uint32_t>(key / 4 + block),
                           s.first_head + static_cast<std::uint32_t>(head));
        // Its keys 0 and 2 to bits 0 and 1, keys 1 and 3 to 16 and 17.
        word |= ((bits & 1) | (bits >> 1 & 2) | ((bits >> 1 & 1) | (bits >> 2 & 2)) << 16) << (2 * block);
    }
    words[(static_cast<std::int64_t>(blockIdx.z) * (padded / 32) + blockIdx.y) * padded + query] = word;
}

// facts [B, H, padded]: (logsumexp / ln 2, sum over d of grad_out * out); behind the end infinity, which
// makes weights 0. Lanes of 16 bytes; kDim / 8 of them a row of [T, B, H, D].
template <int kDim>
__global__ void __launch_bounds__(kThreads)
    facts_kernel(const bf16* grad_out, const bf16* out, const float* logsumexp, std::int64_t length,
                 std::int64_t batch_and_heads, std::int64_t padded, float2* facts) {
    constexpr int kLanes = kDim / 8;
    const std::int64_t index = global_thread(), row = index / kLanes;
    if (row >= padded * batch_and_heads)
        return; // whole rows
    const std::int64_t t = row / batch_and_heads, head = row % batch_and_heads;
    float sum = 0;
    if (t < length) {
        float g[8], o[8];
        load(grad_out + index * 8, g);
        load(out + index * 8, o);
#pragma unroll
        for (int i = 0; i < 8; ++i)
            sum = fmaf(g[i], o[i], sum);
    }
    const unsigned lanes = ((1u << kLanes) - 1) << (threadIdx.x % kWarp / kLanes * kLanes);
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(lanes, sum, distance);
    if (index % kLanes == 0)
        facts[head * padded + t] =
            t < length ? make_float2(logsumexp[head * length + t] * kLog2E, sum) : make_float2(INFINITY, 0);
}

} // namespace

hopper::KeptTable draw_kept(cudaStream_t stream, const AttentionSizes& sizes, std::uint32_t* words) {
    const auto padded = static_cast<int>(cuda_scratch::padded_length(sizes.length));
    const dim3 grid(static_cast<unsigned>(padded / kPadded), static_cast<unsigned>(padded / 32),
                    static_cast<unsigned>(sizes.heads * sizes.batch));
    draw_kernel<<<grid, kPadded, 0, stream>>>(sizes, padded, words);
    check_launch("attention's dropout");
    return {words, padded};
}

void query_facts(cudaStream_t stream, const Tensor& grad_out, const Tensor& out, const Tensor& logsumexp,
                 const AttentionSizes& sizes, float2* facts) {
    const std::int64_t padded = cuda_scratch::padded_length(sizes.length), heads = sizes.batch * sizes.heads;
    const auto launch = [&](auto dim) {
        facts_kernel<dim><<<blocks_for(padded * heads * (dim / 8), kThreads), kThreads, 0, stream>>>(
            data<bf16>(grad_out), data<bf16>(out), data<float>(logsumexp), sizes.length, heads, padded,
            facts);
    };
    if (sizes.dim == 64)
        launch(std::integral_constant<int, 64>{});
    else
        launch(std::integral_constant<int, 128>{});
    check_launch("attention_input_gradient");
}

} // namespace trireme::backend
