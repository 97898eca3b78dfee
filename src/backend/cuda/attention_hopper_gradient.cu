// Attention backward on Hopper, by the formulas of attention_gradient.cu and in the same two kernels: one
// over tiles of queries for their gradients, one over tiles of keys for those of keys and values, so that
// each output is written by one block in a fixed order. The second computes its scores transposed, [keys,
// queries]: weights and gradients of scores then stand in registers as the next product's left operand.
// Products are enqueued ahead: while one runs, the last one's results are worked on.
#include "backend/cuda/attention_hopper.cuh"

namespace trireme::backend {
namespace {

using namespace hopper;

constexpr int kRows = 128; // queries of the first kernel's block, keys of the second's; 64 a warpgroup
constexpr int kStep = 64;  // keys of the first kernel's step, queries of the second's
constexpr int kStages = 3; // steps in shared memory: one under way, one at work, one whose products may run
constexpr int kBlocks = kStep / 8;

// --- gradients of queries
template <int kDim>
constexpr int kQueryBytes = (2 * kRows + (kStages + 2) * kStep) * kDim* static_cast<int>(sizeof(bf16));

// Grid: places. Shared: queries and grad_out [128][dim], three of keys and two of values [64][dim].
template <int kDim, bool kDropout>
__global__ void __launch_bounds__(kThreads, 1)
    hopper_query_kernel(const bf16* grad_out, const bf16* qkv, const float2* facts, AttentionSizes s,
                        KeptTable kept, bf16* grad_qkv) {
    extern __shared__ __align__(1024) bf16 tiles[];
    bf16 *const queries = tiles, *const grads = queries + kRows * kDim, *const keys = grads + kRows * kDim,
                *const values = keys + kStages * kStep * kDim;
    const int length = static_cast<int>(s.length), number_of_tiles = (length + kRows - 1) / kRows,
              padded = number_of_tiles * kRows;
    const Place place(number_of_tiles, s.heads, s.batch);
    const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
    const int q0 = (number_of_tiles - 1 - place.tile) * kRows, own = warp / 4 * 64;
    const int row = q0 + 16 * warp + lane / 4;
    const std::int64_t b = place.b, head = place.head, group = s.group_of(head), number = b * s.heads + head;
    const HeadRows<const bf16> from_keys(qkv, s, s.packed(), b, s.heads + group);
    const HeadRows<const bf16> from_values(qkv, s, s.packed(), b, s.heads + s.groups + group);
    const int end = s.causal ? min(q0 + kRows, length) : length;
    const int seen[2] = {first_seen(s, b, row), first_seen(s, b, row + 8)};
    const float2 fact[2] = {facts[number * padded + row], facts[number * padded + row + 8]};
    const float scale = s.scale * kLog2E;

    float sums[kDim / 8][4] = {}, scores[kBlocks][4], products[kBlocks][4];
    std::uint32_t slopes[kBlocks / 2][4], words[kStep / 32][2];
    const auto fetch = [&](int k0, int key_buffer, int value_buffer) {
        fetch_tile<kStep, kDim>(from_keys, k0, length, keys + key_buffer * kStep * kDim);
        fetch_tile<kStep, kDim>(from_values, k0, length, values + value_buffer * kStep * kDim);
        commit_fetches();
    };
    const auto fetch_words = [&](int k0) {
        if constexpr (kDropout)
#pragma unroll
            for (int i = 0; i < kStep / 32; ++i)
#pragma unroll
                for (int h = 0; h < 2; ++h)
                    words[i][h] = kept.row(number, k0 + 32 * i)[row + 8 * h];
    };
    const auto multiply = [&](int key_buffer, int value_buffer) {
        row_products<kRows, kDim>(queries, own, keys + key_buffer * kStep * kDim, scores);
        commit_products();
        row_products<kRows, kDim>(grads, own, values + value_buffer * kStep * kDim, products);
        commit_products();
    };
    // Scores become weights.
    const auto weigh = [&](int k0) {
#pragma unroll
        for (int i = 0; i < kBlocks; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                scores[i][e] = power_of_two(fmaf(scores[i][e], scale, -fact[e / 2].x));
        if (k0 + kStep <= length && s.documents == nullptr && (!s.causal || k0 + kStep - 1 <= q0 + own))
            return; // all are seen
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int first = seen[h] - k0,
                      last = (s.causal ? min(row + 8 * h, length - 1) : length - 1) - k0;
#pragma unroll
            for (int i = 0; i < kBlocks; ++i)
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    const int key = 8 * i + lane % 4 * 2 + e;
                    if (key > last || key < first)
                        scores[i][2 * h + e] = 0;
                }
        }
    };
    // Weights become gradients of scores, but for the scale.
    const auto slope = [&] {
#pragma unroll
        for (int h = 0; h < 2; ++h)
#pragma unroll
            for (int word = 0; word < kStep / 32; ++word) {
                const std::uint32_t of_lane = kDropout ? words[word][h] >> lane % 4 : 0;
#pragma unroll
                for (int j = 0; j < 4; ++j)
#pragma unroll
                    for (int e = 0; e < 2; ++e) {
                        float product = products[4 * word + j][2 * h + e];
                        if constexpr (kDropout)
                            product = of_lane & 1u << (4 * j + 16 * e) ? product * s.dropout.factor : 0;
                        scores[4 * word + j][2 * h + e] *= product - fact[h].y;
                    }
            }
    };

    int k0 = first_seen(s, b, q0) / kStep * kStep;
    fetch_tile<kRows, kDim>(HeadRows<const bf16>(qkv, s, s.packed(), b, head), q0, length, queries);
    fetch_tile<kRows, kDim>(HeadRows<const bf16>(grad_out, s, s.heads, b, head), q0, length, grads);
    fetch(k0, 0, 0);
    fetch_words(k0);
    wait_for_fetches();
    __syncthreads();
    if (k0 + kStep < end)
        fetch(k0 + kStep, 1, 1);
    begin_products();
    multiply(0, 0);
    wait_for_products<1>();
    hold(scores);
    weigh(k0);
    wait_for_products<0>();
    hold(products);
    slope();
    pack_rows(scores, slopes);

    int key_buffer = 0, value_buffer = 0; // of the step whose slopes are packed
    for (; k0 + kStep < end; k0 += kStep) {
        const int next = key_buffer == kStages - 1 ? 0 : key_buffer + 1;
        wait_for_fetches();
        __syncthreads(); // the next step is here, and the products before this one's last are done
        if (k0 + 2 * kStep < end)
            fetch(k0 + 2 * kStep, next == kStages - 1 ? 0 : next + 1, value_buffer);
        fetch_words(k0 + kStep);
        hold(scores);
        hold(products);
        hold(sums);
        begin_products();
        multiply(next, value_buffer ^ 1);
        add_weighted_rows<kDim>(slopes, keys + key_buffer * kStep * kDim, sums);
        commit_products();
        wait_for_products<2>();
        hold(scores);
        weigh(k0 + kStep);
        wait_for_products<1>();
        hold(products);
        slope();
        wait_for_products<0>();
        hold(sums);
        pack_rows(scores, slopes);
        key_buffer = next;
        value_buffer ^= 1;
    }
    hold(sums);
    begin_products();
    add_weighted_rows<kDim>(slopes, keys + key_buffer * kStep * kDim, sums);
    commit_products();
    wait_for_products<0>();
    hold(sums);
    store_rows<kDim>(HeadRows<bf16>(grad_qkv, s, s.packed(), b, head), row, length, sums, s.scale, s.scale);
}

// --- gradients of keys and values
// A step's queries, besides their vectors: facts [64], words [4][64].
constexpr int kWordRows = kRows / 32;
constexpr int kStepBytes = kStep * (static_cast<int>(sizeof(float2)) + kWordRows * 4);
template <int kDim>
constexpr int kKeyBytes =
    (2 * kRows + 2 * kStages * kStep) * kDim* static_cast<int>(sizeof(bf16)) + kStages* kStepBytes;

// Grid: places (of groups). The block walks over the heads that share its group and their queries. Shared:
// keys and values [128][dim], three each of queries and grad_out [64][dim], three times what a step has
// besides.
template <int kDim, bool kDropout>
__global__ void __launch_bounds__(kThreads, 1)
    hopper_key_kernel(const bf16* grad_out, const bf16* qkv, const float2* facts, AttentionSizes s,
                      KeptTable kept, bf16* grad_qkv) {
    extern __shared__ __align__(1024) bf16 tiles[];
    bf16 *const keys = tiles, *const values = keys + kRows * kDim, *const queries = values + kRows * kDim,
                *const grads = queries + kStages * kStep * kDim;
    auto* const besides = reinterpret_cast<std::byte*>(grads + kStages * kStep * kDim);
    const int length = static_cast<int>(s.length), number_of_tiles = (length + kRows - 1) / kRows,
              padded = number_of_tiles * kRows;
    const Place place(number_of_tiles, s.groups, s.batch);
    const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp, lane = thread % kWarp;
    const int k0 = place.tile * kRows, own = warp / 4 * 64, row = k0 + 16 * warp + lane / 4;
    const std::int64_t b = place.b, group = place.head;
    const int shared_by = static_cast<int>(s.heads / s.groups);

    // Queries q_begin ... q_end - 1 may see a key of this block; documents do not go back.
    const int q_begin = s.causal ? k0 : 0;
    int steps = (length - q_begin + kStep - 1) / kStep;
    while (steps > 1 && first_seen(s, b, q_begin + (steps - 1) * kStep) >= k0 + kRows)
        --steps;
    const auto fetch = [&](int number, int buffer) {
        const std::int64_t head = group * shared_by + number / steps, of_batch = b * s.heads + head;
        const int q0 = q_begin + number % steps * kStep;
        fetch_tile<kStep, kDim>(HeadRows<const bf16>(qkv, s, s.packed(), b, head), q0, length,
                                queries + buffer * kStep * kDim);
        fetch_tile<kStep, kDim>(HeadRows<const bf16>(grad_out, s, s.heads, b, head), q0, length,
                                grads + buffer * kStep * kDim);
        const std::uint32_t to = shared_address(besides + buffer * kStepBytes);
        constexpr int kFactChunks = kStep * 8 / 16, kWordChunks = kStep * 4 / 16; // the latter of a row
        if (thread < kFactChunks)
            copy_16(to + static_cast<std::uint32_t>(16 * thread), facts + of_batch * padded + q0 + 2 * thread,
                    true);
        else if (kDropout && thread < kFactChunks + kWordRows * kWordChunks) {
            const int i = thread - kFactChunks;
            copy_16(to + static_cast<std::uint32_t>(16 * thread),
                    kept.row(of_batch, k0 + i / kWordChunks * 32) + q0 + i % kWordChunks * 4, true);
        }
        commit_fetches();
    };

    float key_sums[kDim / 8][4] = {}, value_sums[kDim / 8][4] = {}, scores[kBlocks][4], products[kBlocks][4];
    std::uint32_t weights[kBlocks / 2][4], slopes[kBlocks / 2][4];
    const float scale = s.scale * kLog2E;
    // Of a word: where the bit of this lane's upper key stands.
    const int bit = 8 * (warp % 2) + lane / 8 + 16 * (lane / 4 % 2);

    fetch_tile<kRows, kDim>(HeadRows<const bf16>(qkv, s, s.packed(), b, s.heads + group), k0, length, keys);
    fetch_tile<kRows, kDim>(HeadRows<const bf16>(qkv, s, s.packed(), b, s.heads + s.groups + group), k0,
                            length, values);
    fetch(0, 0);
    int buffer = 0;
    for (int number = 0; number < shared_by * steps; ++number) {
        const int next = buffer == kStages - 1 ? 0 : buffer + 1, q0 = q_begin + number % steps * kStep;
        wait_for_fetches();
        __syncthreads(); // this step is here, and the products of the one before the last are done
        if (number + 1 < shared_by * steps)
            fetch(number + 1, next);
        hold(scores);
        hold(products);
        hold(key_sums);
        hold(value_sums);
        begin_products();
        row_products<kRows, kDim>(keys, own, queries + buffer * kStep * kDim, scores);
        commit_products();
        row_products<kRows, kDim>(values, own, grads + buffer * kStep * kDim, products);
        commit_products();

        const auto* const step_facts = reinterpret_cast<const float4*>(besides + buffer * kStepBytes);
        const auto* const step_words =
            reinterpret_cast<const uint2*>(besides + buffer * kStepBytes + kStep * sizeof(float2)) +
            warp / 2 * (kStep / 2);
        wait_for_products<1>(); // the scores, and with them all of the last step
        hold(scores);
#pragma unroll
        for (int i = 0; i < kBlocks; ++i) {
            const float4 fact = step_facts[4 * i + lane % 4]; // of two queries
#pragma unroll
            for (int e = 0; e < 4; ++e)
                scores[i][e] = power_of_two(fmaf(scores[i][e], scale, e % 2 == 0 ? -fact.x : -fact.z));
        }
        if (k0 + kRows > length || s.documents != nullptr || (s.causal && q0 < k0 + own + 63)) {
#pragma unroll
            for (int i = 0; i < kBlocks; ++i)
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const int query = q0 + 8 * i + lane % 4 * 2 + e % 2, key = row + e / 2 * 8;
                    if (key >= length || (s.causal && key > query) || key < first_seen(s, b, query))
                        scores[i][e] = 0;
                }
        }
        // What dropout keeps of the weights, rounded, goes to the values.
        std::uint32_t words[kBlocks][2] = {};
        if constexpr (kDropout) {
#pragma unroll
            for (int i = 0; i < kBlocks; ++i) {
                const uint2 both = step_words[4 * i + lane % 4];
                words[i][0] = both.x >> bit;
                words[i][1] = both.y >> bit;
            }
        }
        const auto keeps = [&](int i, int e) { return (words[i][e % 2] & (e < 2 ? 1u : 16u)) != 0; };
#pragma unroll
        for (int i = 0; i < kBlocks; ++i)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                float used[2] = {scores[i][2 * h], scores[i][2 * h + 1]};
                if constexpr (kDropout)
#pragma unroll
                    for (int e = 0; e < 2; ++e)
                        used[e] = keeps(i, 2 * h + e) ? used[e] : 0;
                weights[i / 2][i % 2 * 2 + h] = pair(used[0], used[1]);
            }
        begin_products();
        add_weighted_rows<kDim>(weights, grads + buffer * kStep * kDim, value_sums);
        commit_products();
        wait_for_products<1>();
        hold(products);
#pragma unroll
        for (int i = 0; i < kBlocks; ++i) {
            const float4 fact = step_facts[4 * i + lane % 4];
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                float product = products[i][e];
                if constexpr (kDropout)
                    product = keeps(i, e) ? product * s.dropout.factor : 0;
                products[i][e] = scores[i][e] * (product - (e % 2 == 0 ? fact.y : fact.w));
            }
        }
        pack_rows(products, slopes);
        begin_products();
        add_weighted_rows<kDim>(slopes, queries + buffer * kStep * kDim, key_sums);
        commit_products();
        buffer = next;
    }
    wait_for_products<0>();
    hold(key_sums);
    hold(value_sums);
    store_rows<kDim>(HeadRows<bf16>(grad_qkv, s, s.packed(), b, s.heads + group), row, length, key_sums,
                     s.scale, s.scale);
    store_rows<kDim>(HeadRows<bf16>(grad_qkv, s, s.packed(), b, s.heads + s.groups + group), row, length,
                     value_sums, s.dropout.factor, s.dropout.factor);
}

template <int kDim, bool kDropout>
void launch(cudaStream_t stream, const Tensor& grad_out, const Tensor& qkv, const float2* facts,
            const AttentionSizes& sizes, const KeptTable& kept, const Tensor& grad_qkv) {
    const std::int64_t tiles = blocks_for(sizes.length, kRows);
    const auto start = [&](auto* kernel, std::int64_t heads, int bytes) {
        allow_shared(kernel, bytes);
        kernel<<<static_cast<unsigned>(tiles * heads * sizes.batch), kThreads,
                 static_cast<std::size_t>(bytes), stream>>>(data<bf16>(grad_out), data<bf16>(qkv), facts,
                                                            sizes, kept, writable<bf16>(grad_qkv));
        check_launch("attention_input_gradient");
    };
    start(hopper_query_kernel<kDim, kDropout>, sizes.heads, kQueryBytes<kDim>);
    start(hopper_key_kernel<kDim, kDropout>, sizes.groups, kKeyBytes<kDim>);
}

} // namespace

void hopper_attention_input_gradient(cudaStream_t stream, const Tensor& grad_out, const Tensor& qkv,
                                     const Tensor& out, const Tensor& logsumexp, const Attention& attention,
                                     const Tensor& grad_qkv, DeviceScratch& scratch) {
    const AttentionSizes sizes(qkv, attention);
    const std::int64_t rows = sizes.batch * sizes.heads * cuda_scratch::padded_length(sizes.length);
    auto* const facts = static_cast<float2*>(scratch.reserve(cuda_scratch::hopper_attention_gradient(
        sizes.batch, sizes.heads, sizes.length, sizes.dropout.active)));
    query_facts(stream, grad_out, out, logsumexp, sizes, facts);
    const auto choose = [&](auto dim) {
        if (sizes.dropout.active)
            launch<dim, true>(stream, grad_out, qkv, facts, sizes,
                              draw_kept(stream, sizes, reinterpret_cast<std::uint32_t*>(facts + rows)),
                              grad_qkv);
        else
            launch<dim, false>(stream, grad_out, qkv, facts, sizes, {}, grad_qkv);
    };
    if (sizes.dim == 64)
        choose(std::integral_constant<int, 64>{});
    else
        choose(std::integral_constant<int, 128>{});
}

} // namespace trireme::backend
