// Time of every operation at the shapes of one model's layer and head, beside the ceiling of its kind: bytes
// that must move over the copy bandwidth, or floating-point operations over what the matrix unit reaches. A
// table on standard output. usage: ops_bench [HIDDEN HEADS SEQUENCE MICRO_BATCH]
#include <array>
#include <chrono>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <memory>
#include <random>

#include "trireme/backend/backend.hpp"
#include "trireme/memory/arena.hpp"

namespace {

using namespace trireme;
using backend::GradWrite;
using backend::Operations;

class Bench {
  public:
    explicit Bench(backend::Backend& on) : on_(on) {}

    // work: bytes for GB/s, or floating-point operations for TFLOP/s.
    template <class Call>
    void time(const char* what, double work, const char* unit, const Call& call) {
        constexpr int kRounds = 20;
        for (int i = 0; i < 3; ++i)
            call(on_.compute());
        on_.synchronize(backend::StreamRole::compute);
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < kRounds; ++i)
            call(on_.compute());
        on_.synchronize(backend::StreamRole::compute);
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kRounds;
        std::cout << std::left << std::setw(34) << what << std::right << std::fixed << std::setw(10)
                  << std::setprecision(3) << seconds * 1e3 << " ms" << std::setw(10) << std::setprecision(2)
                  << work / seconds / 1e12 << ' ' << unit << std::endl;
    }

  private:
    backend::Backend& on_;
};

int measure(int argc, char** argv) {
    std::array<std::int64_t, 4> values{768, 12, 1024, 64};
    for (int i = 1; i < argc && i <= 4; ++i)
        values[static_cast<std::size_t>(i - 1)] = std::atoll(argv[i]);
    const auto [C, H, T, B] = values;
    const std::int64_t n = T * B, D = C / H, F = 4 * C, V = 50304;
    const std::int64_t n_wide = std::min<std::int64_t>(n, 32768), V_wide = 151936; // Qwen 2.5's vocabulary
    const std::unique_ptr<backend::Backend> on = backend::make_backend({.device = backend::Device::cuda});
    std::cout << on->description() << "\nhidden " << C << ", heads " << H << ", sequence " << T
              << ", micro-batch " << B << '\n';

    memory::Plan plan;
    std::vector<memory::Item> items;
    const auto add = [&](const Shape& shape, DType type) {
        items.push_back(plan.add(memory::Category::buffers, "bench", shape, type));
        return items.size() - 1;
    };
    const auto bf = DType::bf16, fl = DType::f32;
    const auto hidden = add({T, B, C}, bf), hidden2 = add({T, B, C}, bf), hidden3 = add({T, B, C}, bf);
    const auto qkv = add({T, B, 3 * H, D}, bf), grad_qkv = add({T, B, 3 * H, D}, bf);
    const auto wide = add({n, F}, bf), wide2 = add({n, F}, bf);
    const auto logits_wide = add({n_wide, V_wide}, bf), sums_wide = add({2, n_wide}, fl);
    const auto logits = add({n, V}, bf), table = add({V, C}, bf), grad_table = add({V, C}, fl);
    const auto w_qkv = add({3 * C, C}, bf), w_up = add({F, C}, bf), w_down = add({C, F}, bf),
               w_proj = add({C, C}, bf);
    const auto g_qkv = add({3 * C, C}, fl), g_up = add({F, C}, fl), g_down = add({C, F}, fl),
               g_proj = add({C, C}, fl);
    const auto bias_c = add({C}, bf), bias_f = add({F}, bf), bias_q = add({3 * C}, bf);
    const auto gbias_c = add({C}, fl), gbias_c2 = add({C}, fl), gbias_f = add({F}, fl),
               gbias_q = add({3 * C}, fl);
    const auto mean = add({n}, fl), rstd = add({n}, fl), sums = add({2, n}, fl), lse = add({B, H, T}, fl),
               loss = add({1}, fl);
    const auto tokens = add({T, B}, DType::i32), factor = add({1}, DType::f64);
    const std::int64_t state = std::int64_t{64} << 20; // elements of the optimizer's pass
    const auto m0 = add({state}, fl), m1 = add({state}, fl), m2 = add({state}, fl), m3 = add({state}, fl);
    const auto w16 = add({state}, bf);
    const memory::Arena arena(plan, *on);
    const auto at = [&](std::size_t item) { return arena.tensor(items[item]); };

    // Random data: zeros run faster than what a model sees.
    {
        std::mt19937 words(1);
        std::vector<float> block(1 << 22);
        for (float& value : block)
            value = static_cast<float>(words() * 0x1.0p-31 - 1);
        for (const std::size_t item : {hidden, hidden2, hidden3, qkv,    grad_qkv, wide,   wide2,      logits,
                                       table,  w_qkv,   w_up,    w_down, w_proj,   bias_c, bias_f,     bias_q,
                                       mean,   rstd,    m0,      m1,     m2,       m3,     logits_wide}) {
            const Tensor whole = at(item);
            for (std::int64_t first = 0; first < whole.elements(); first += 1 << 22) {
                const std::int64_t count = std::min<std::int64_t>(1 << 22, whole.elements() - first);
                const Tensor part = whole.flat(first, count);
                if (part.type() == fl) {
                    on->copy_to_device(Tensor(block.data(), Shape{count}, fl), part);
                } else {
                    on->copy_to_device(Tensor(block.data(), Shape{count}, fl), at(m0).flat(0, count));
                    on->compute().copy(at(m0).flat(0, count), part);
                }
            }
        }
        std::vector<std::int32_t> ids(static_cast<std::size_t>(n));
        for (auto& id : ids)
            id = static_cast<std::int32_t>(words() % 50257);
        on->copy_to_device(Tensor(std::span(ids), Shape{T, B}), at(tokens));
        on->compute().fill(at(factor), 1e-3);
        on->compute().scale(at(m3), 0); // second moments are not negative
    }

    Bench bench(*on);
    if (std::getenv("TRIREME_BENCH_TUNE") != nullptr)
        on->start_tuning();
    const double tokens_c = static_cast<double>(n * C), tokens_f = static_cast<double>(n * F),
                 logit = static_cast<double>(n * V);
    const auto gemm = [&](double rows, double out, double in) { return 2 * rows * out * in; };
    const double nn = static_cast<double>(n), c = static_cast<double>(C), f = static_cast<double>(F),
                 v = static_cast<double>(V);
    const char *const kRate = "TFLOP/s", *const kBand = "TB/s";
    const auto linear = [&](const char* name, std::size_t x, std::size_t w, std::size_t b, std::size_t y,
                            std::size_t gw, double out, double in) {
        const Tensor from = at(x).reshaped(Shape{n, static_cast<std::int64_t>(in)}),
                     to = at(y).reshaped(Shape{n, static_cast<std::int64_t>(out)});
        bench.time(concat(name, " forward").c_str(), gemm(nn, out, in), kRate,
                   [&](Operations& o) { o.linear_forward(from, at(w), b == 0 ? Tensor{} : at(b), to); });
        bench.time(concat(name, " input gradient").c_str(), gemm(nn, out, in), kRate,
                   [&](Operations& o) { o.linear_input_gradient(to, at(w), from); });
        bench.time(concat(name, " weight gradient").c_str(), gemm(nn, out, in), kRate,
                   [&](Operations& o) { o.linear_weight_gradient(from, to, at(gw), GradWrite::accumulate); });
    };
    // What stands behind a product and may go into it: both ways.
    const auto behind = [&](const char* name, std::size_t x, std::size_t w, std::size_t b, std::size_t y,
                            double out, double in) {
        const Tensor from = at(x).reshaped(Shape{n, static_cast<std::int64_t>(in)}),
                     to = at(y).reshaped(Shape{n, static_cast<std::int64_t>(out)});
        const Tensor added = at(hidden3).reshaped(Shape{n, C}), hidden_y = to.reshaped(Shape{T, B, C});
        bench.time(concat(name, " forward, then residual").c_str(), gemm(nn, out, in), kRate,
                   [&](Operations& o) {
                       o.linear_forward(from, at(w), {}, to);
                       o.bias_dropout_residual(hidden_y, at(b), at(hidden3), {}, hidden_y);
                   });
        bench.time(concat(name, " forward with residual").c_str(), gemm(nn, out, in), kRate,
                   [&](Operations& o) { o.linear_residual_forward(from, at(w), at(b), added, to); });
    };
    behind("projection", hidden, w_proj, bias_c, hidden2, c, c);
    behind("down", wide, w_down, bias_c, hidden, c, f);
    linear("qkv", hidden, w_qkv, bias_q, qkv, g_qkv, 3 * c, c);
    linear("projection", hidden, w_proj, 0, hidden2, g_proj, c, c);
    linear("up", hidden, w_up, bias_f, wide, g_up, f, c);
    linear("down", wide, w_down, 0, hidden, g_down, c, f);
    linear("logits", hidden, table, 0, logits, grad_table, v, c);
    bench.time("up forward with gelu", gemm(nn, f, c), kRate, [&](Operations& o) {
        o.linear_gelu_forward(at(hidden).reshaped(Shape{n, C}), at(w_up), at(bias_f), at(wide), at(wide2));
    });
    bench.time("down input gradient with gelu", gemm(nn, c, f), kRate, [&](Operations& o) {
        o.linear_gelu_input_gradient(at(hidden).reshaped(Shape{n, C}), at(w_down), at(wide2), at(wide));
    });
    bench.time("bias gradient C", 2 * tokens_c, kBand, [&](Operations& o) {
        o.bias_gradient(at(hidden).reshaped(Shape{n, C}), at(gbias_c), GradWrite::accumulate);
    });
    bench.time("bias gradient 3C", 6 * tokens_c, kBand, [&](Operations& o) {
        o.bias_gradient(at(qkv).reshaped(Shape{n, 3 * C}), at(gbias_q), GradWrite::accumulate);
    });
    bench.time("bias gradient F", 2 * tokens_f, kBand,
               [&](Operations& o) { o.bias_gradient(at(wide), at(gbias_f), GradWrite::accumulate); });
    const Tensor x = at(hidden).reshaped(Shape{n, C}), y = at(hidden2).reshaped(Shape{n, C}),
                 z = at(hidden3).reshaped(Shape{n, C});
    bench.time("layer norm forward", 4 * tokens_c, kBand, [&](Operations& o) {
        o.layer_norm_forward(x, at(bias_c), at(bias_c), 1e-5, y, at(mean), at(rstd));
    });
    bench.time("layer norm input gradient +=", 8 * tokens_c, kBand, [&](Operations& o) {
        o.layer_norm_input_gradient(x, y, at(bias_c), at(mean), at(rstd), z, GradWrite::accumulate);
    });
    bench.time("layer norm weight gradient", 4 * tokens_c, kBand, [&](Operations& o) {
        o.layer_norm_weight_gradient(x, y, at(mean), at(rstd), at(gbias_c), at(gbias_c2),
                                     GradWrite::accumulate);
    });
    bench.time("layer norm gradients at once +=", 8 * tokens_c, kBand, [&](Operations& o) {
        o.layer_norm_gradients(x, y, at(bias_c), at(mean), at(rstd), z, GradWrite::accumulate,
                               {at(gbias_c), at(gbias_c2), GradWrite::accumulate});
    });
    bench.time("gelu forward", 4 * tokens_f, kBand,
               [&](Operations& o) { o.gelu_forward(at(wide), at(wide2)); });
    bench.time("gelu gradient in place", 6 * tokens_f, kBand,
               [&](Operations& o) { o.gelu_input_gradient(at(wide2), at(wide), at(wide2)); });
    bench.time("residual without dropout", 6 * tokens_c, kBand, [&](Operations& o) {
        o.bias_dropout_residual(at(hidden), at(bias_c), at(hidden2), {}, at(hidden3));
    });
    backend::Dropout dropout{.probability = 0.1, .seed = 1, .site = backend::DropoutSite::mlp_output};
    bench.time("residual with dropout", 6 * tokens_c, kBand, [&](Operations& o) {
        o.bias_dropout_residual(at(hidden), at(bias_c), at(hidden2), dropout, at(hidden3));
    });
    bench.time("dropout gradient", 4 * tokens_c, kBand,
               [&](Operations& o) { o.dropout_gradient(at(hidden), dropout, at(hidden3)); });

    backend::Attention attention{.heads = H, .groups = H, .head_dim = D, .scale = 0.125, .dropout = {}};
    const double attention_flops = 2.0 * nn * static_cast<double>(T) * c; // causal half of 4 n T C
    const Tensor out = at(hidden).reshaped(Shape{T, B, H, D}), grad = at(hidden2).reshaped(Shape{T, B, H, D});
    bench.time("attention forward", attention_flops, kRate,
               [&](Operations& o) { o.attention_forward(at(qkv), attention, out, at(lse)); });
    bench.time("attention gradient", 2.5 * attention_flops, kRate, [&](Operations& o) {
        o.attention_input_gradient(grad, at(qkv), out, at(lse), attention, at(grad_qkv));
    });
    attention.dropout = dropout;
    bench.time("attention forward with dropout", attention_flops, kRate,
               [&](Operations& o) { o.attention_forward(at(qkv), attention, out, at(lse)); });
    bench.time("attention gradient with dropout", 2.5 * attention_flops, kRate, [&](Operations& o) {
        o.attention_input_gradient(grad, at(qkv), out, at(lse), attention, at(grad_qkv));
    });
    bench.time("embedding forward", 4 * tokens_c, kBand,
               [&](Operations& o) { o.embedding_forward(at(tokens), at(table), 0, at(hidden)); });
    bench.time("embedding gradient", 2 * tokens_c + 8 * v * c, kBand, [&](Operations& o) {
        o.embedding_weight_gradient(at(tokens), at(hidden), 0, at(grad_table));
    });
    bench.time("position gradient", 2 * tokens_c, kBand,
               [&](Operations& o) { o.position_weight_gradient(at(hidden), 0, at(grad_table)); });
    const Tensor targets = at(tokens).reshaped(Shape{n});
    bench.time("cross-entropy maximum", 2 * logit, kBand,
               [&](Operations& o) { o.cross_entropy_maximum(at(logits), 50257, at(mean)); });
    bench.time("cross-entropy sums", 2 * logit, kBand, [&](Operations& o) {
        o.cross_entropy_sums(at(logits), 50257, targets, 0, at(mean), at(sums));
    });
    bench.time("cross-entropy loss", 8 * nn, kBand,
               [&](Operations& o) { o.cross_entropy_loss(at(sums), {}, at(loss)); });
    bench.time("cross-entropy gradient", 4 * logit, kBand, [&](Operations& o) {
        o.cross_entropy_gradient(at(logits), 50257, targets, 0, at(mean), at(sums), {}, 1e-6);
    });
    bench.time("cross-entropy at once", 4 * logit, kBand, [&](Operations& o) {
        o.cross_entropy(at(logits), 50257, targets, {}, 1e-6, at(mean), at(sums), at(loss));
    });
    bench.time("cross-entropy at once, 151936", 4 * static_cast<double>(n_wide * V_wide), kBand,
               [&](Operations& o) {
                   o.cross_entropy(at(logits_wide), V_wide, targets.flat(0, n_wide), {}, 1e-6,
                                   at(mean).flat(0, n_wide), at(sums_wide), at(loss));
               });
    const double elements = static_cast<double>(state);
    bench.time("adam of 64 Mi", 30 * elements, kBand, [&](Operations& o) {
        o.adam_update(at(m0), at(m1), at(m2), at(m3), at(w16), at(factor), {});
    });
    bench.time("sum of squares of 64 Mi", 4 * elements, kBand,
               [&](Operations& o) { o.sum_of_squares(at(m1), at(factor), GradWrite::overwrite); });
    bench.time("fill with zeros 64 Mi", 4 * elements, kBand, [&](Operations& o) { o.fill(at(m1), 0); });
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    try {
        return measure(argc, argv);
    } catch (const Error& error) {
        std::cerr << error.message();
        return error.exit_code();
    }
}
