// Each operation of the CUDA backend against the CPU's, over tiny, ragged and large shapes.
#include <limits>

#include "gpu/compare.hpp"

namespace trireme::test {
namespace {

using backend::Adam;
using backend::Dropout;
using backend::DropoutSite;
using backend::GradWrite;
using backend::Operations;

class Gpu : public testing::Test {
  protected:
    void SetUp() override {
        if (gpu() == nullptr)
            GTEST_SKIP() << "needs gpu: this machine has none, or the build has no CUDA";
    }
};

Buffer in(Shape shape, double low = -1, double high = 1) {
    return {Holds::act, Flow::in, shape, low, high};
}
Buffer out(Shape shape) {
    return {Holds::act, Flow::out, shape};
}
Buffer in_out(Shape shape) {
    return {Holds::act, Flow::in_out, shape};
}
Buffer statistic(Shape shape, double low = -1, double high = 1) {
    return {Holds::stat, Flow::in, shape, low, high};
}
Buffer statistic_out(Shape shape) {
    return {Holds::stat, Flow::out, shape};
}
Buffer main_gradient(Shape shape, GradWrite write) {
    return {Holds::main, write == GradWrite::accumulate ? Flow::in_out : Flow::out, shape};
}
Buffer tokens(Shape shape, int below) {
    return {Holds::i32, Flow::in, shape, 0, static_cast<double>(below)};
}
constexpr GradWrite kWrites[] = {GradWrite::overwrite, GradWrite::accumulate};

TEST_F(Gpu, Linear) {
    struct Sizes {
        std::int64_t n, in, out;
    };
    for (const auto [n, c, f] : {Sizes{1, 1, 1}, Sizes{5, 3, 7}, Sizes{64, 64, 64}, Sizes{70, 33, 129},
                                 Sizes{300, 40, 1601}, Sizes{512, 256, 768}, Sizes{1000, 768, 200}}) {
        const std::string what = concat("linear ", n, " x ", c, " x ", f);
        compare(what, {in({n, c}), in({f, c}), out({n, f})},
                [](Operations& ops, std::vector<Tensor>& t) { ops.linear_forward(t[0], t[1], {}, t[2]); });
        compare(what + " with bias", {in({n, c}), in({f, c}), in({f}), out({n, f})},
                [](Operations& ops, std::vector<Tensor>& t) { ops.linear_forward(t[0], t[1], t[2], t[3]); });
        compare(what + " input gradient", {in({n, f}), in({f, c}), out({n, c})},
                [](Operations& ops, std::vector<Tensor>& t) { ops.linear_input_gradient(t[0], t[1], t[2]); });
        compare(what + " with residual", {in({n, c}), in({f, c}), in({n, f}), out({n, f})},
                [](Operations& ops, std::vector<Tensor>& t) {
                    ops.linear_residual_forward(t[0], t[1], {}, t[2], t[3]);
                });
        compare(what + " with bias and residual", {in({n, c}), in({f, c}), in({f}), in({n, f}), out({n, f})},
                [](Operations& ops, std::vector<Tensor>& t) {
                    ops.linear_residual_forward(t[0], t[1], t[2], t[3], t[4]);
                });
        for (const GradWrite write : kWrites) {
            compare(what + " weight gradient", {in({n, c}), in({n, f}), main_gradient({f, c}, write)},
                    [&](Operations& ops, std::vector<Tensor>& t) {
                        ops.linear_weight_gradient(t[0], t[1], t[2], write);
                    });
            compare(what + " bias gradient", {in({n, f}), main_gradient({f}, write)},
                    [&](Operations& ops, std::vector<Tensor>& t) { ops.bias_gradient(t[0], t[1], write); });
        }
    }
}

TEST_F(Gpu, LayerNorm) {
    struct Sizes {
        std::int64_t n, c;
    };
    for (const auto [n, c] : {Sizes{1, 1}, Sizes{3, 7}, Sizes{33, 64}, Sizes{130, 768}, Sizes{70, 1600},
                              Sizes{9, 1023}, Sizes{17, 4096}, Sizes{5, 12288}, Sizes{2000, 100}}) {
        const std::string what = concat("layer norm ", n, " x ", c);
        compare(what,
                {in({n, c}, -1, 3), in({c}), in({c}), out({n, c}), statistic_out({n}), statistic_out({n})},
                [](Operations& ops, std::vector<Tensor>& t) {
                    ops.layer_norm_forward(t[0], t[1], t[2], 1e-5, t[3], t[4], t[5]);
                });
        for (const GradWrite write : kWrites) {
            compare(what + " input gradient",
                    {in({n, c}), in({n, c}), in({c}), statistic({n}), statistic({n}, 0.5, 2),
                     write == GradWrite::accumulate ? in_out({n, c}) : out({n, c})},
                    [&](Operations& ops, std::vector<Tensor>& t) {
                        ops.layer_norm_input_gradient(t[0], t[1], t[2], t[3], t[4], t[5], write);
                    });
            compare(what + " weight gradient",
                    {in({n, c}), in({n, c}), statistic({n}), statistic({n}, 0.5, 2),
                     main_gradient({c}, write), main_gradient({c}, write)},
                    [&](Operations& ops, std::vector<Tensor>& t) {
                        ops.layer_norm_weight_gradient(t[0], t[1], t[2], t[3], t[4], t[5], write);
                    });
        }
    }
}

// Widths that one, two, four and twelve warps hold, with packs to spare and without; one beyond; rows that
// leave groups of warps idle, and rows for several rounds of all of them.
TEST_F(Gpu, NormGradientsAtOnce) {
    struct Sizes {
        std::int64_t n, c;
    };
    for (const auto [n, c] :
         {Sizes{1, 8}, Sizes{3, 7}, Sizes{40, 64}, Sizes{4000, 768}, Sizes{130, 1024}, Sizes{300, 1032},
          Sizes{2500, 1536}, Sizes{1, 1600}, Sizes{1000, 2048}, Sizes{900, 3584}, Sizes{37, 4096},
          Sizes{500, 5120}, Sizes{20, 12288}, Sizes{5, 12296}})
        for (const GradWrite write : kWrites) {
            const std::string what = concat(" norm gradients ", n, " x ", c);
            const Buffer grad_x = write == GradWrite::accumulate ? in_out({n, c}) : out({n, c});
            compare(
                "layer" + what,
                {in({n, c}), in({n, c}), in({c}), statistic({n}), statistic({n}, 0.5, 2), grad_x,
                 main_gradient({c}, write), main_gradient({c}, write)},
                [&](Operations& ops, std::vector<Tensor>& t) {
                    ops.layer_norm_gradients(t[0], t[1], t[2], t[3], t[4], t[5], write, {t[6], t[7], write});
                });
            compare(
                "rms" + what,
                {in({n, c}), in({n, c}), in({c}), statistic({n}, 0.5, 2), grad_x, main_gradient({c}, write)},
                [&](Operations& ops, std::vector<Tensor>& t) {
                    ops.rms_norm_gradients(t[0], t[1], t[2], t[3], t[4], write, {t[5], {}, write});
                });
        }
}

TEST_F(Gpu, Gelu) {
    for (const std::int64_t n : {1, 7, 256, 100003}) {
        compare("gelu", {in({n}, -8, 8), out({n})},
                [](Operations& ops, std::vector<Tensor>& t) { ops.gelu_forward(t[0], t[1]); });
        compare("gelu gradient", {in({n}), in({n}, -8, 8), out({n})},
                [](Operations& ops, std::vector<Tensor>& t) { ops.gelu_input_gradient(t[0], t[1], t[2]); });
        compare("gelu gradient in place", {in_out({n}), in({n}, -8, 8)},
                [](Operations& ops, std::vector<Tensor>& t) { ops.gelu_input_gradient(t[0], t[1], t[0]); });
    }
}

// The plain computation is the one in two steps, which stores its result in between: what the CPU does in the
// same type.
TEST_F(Gpu, LinearWithGelu) {
    for (const auto& [n, c, f] :
         {std::array<std::int64_t, 3>{1, 1, 1}, {33, 40, 72}, {128, 256, 1024}, {70, 33, 129}}) {
        compare(concat("linear with gelu ", n, " x ", c, " x ", f),
                {in({n, c}), in({f, c}), in({f}), out({n, f}), out({n, f})},
                [](Operations& ops, std::vector<Tensor>& t) {
                    ops.linear_gelu_forward(t[0], t[1], t[2], t[3], t[4]);
                });
        const std::vector<Buffer> buffers{in({n, f}), in({f, c}), in({n, c}, -4, 4), out({n, c})};
        const Call call = [](Operations& ops, std::vector<Tensor>& t) {
            ops.linear_gelu_input_gradient(t[0], t[1], t[2], t[3]);
        };
        compare(concat("gradient of linear behind gelu ", n, " x ", c, " x ", f), buffers, call,
                [&](DType act, const Values& inputs) {
                    return run(*backend::make_cpu_backend(2), act, buffers, inputs, call);
                });
    }
}

// Choices found by timing travel as text and give the same bits as where they were found.
TEST_F(Gpu, TunedProductsAreRepeatable) {
    const std::vector<Buffer> buffers{in({512, 256}), in({768, 256}), out({512, 768})};
    const Values inputs = draw(buffers, 4);
    const Call call = [](Operations& ops, std::vector<Tensor>& t) {
        ops.linear_forward(t[0], t[1], {}, t[2]);
    };
    gpu()->start_tuning();
    const Values timed = run(*gpu(), DType::bf16, buffers, inputs, call);
    const std::string choices = gpu()->end_tuning();
    EXPECT_NE(choices.find("512 768 256 "), std::string::npos) << choices;
    gpu()->use_tuned(choices);
    const Values again = run(*gpu(), DType::bf16, buffers, inputs, call);
    EXPECT_EQ(timed[2], again[2]);
    const std::string scope = choices.substr(0, choices.find(' '));
    EXPECT_THROW(gpu()->use_tuned(scope + " 512 768\n"), Error);
    gpu()->use_tuned("another_GPU/1.2.3 512 768\n"); // not for this one: passed over
}

TEST_F(Gpu, Elementwise) {
    for (const std::int64_t n : {1, 1000, 100001}) {
        compare("fill", {out({n})}, [](Operations& ops, std::vector<Tensor>& t) { ops.fill(t[0], -2.5); });
        compare("fill with zeros", {out({n})},
                [](Operations& ops, std::vector<Tensor>& t) { ops.fill(t[0], 0); });
        compare("copy", {in({n}), out({n}), statistic_out({n}), {Holds::f64, Flow::out, Shape{n}}},
                [](Operations& ops, std::vector<Tensor>& t) {
                    for (std::size_t i = 1; i < 4; ++i)
                        ops.copy(t[0], t[i]);
                });
        compare("copy from fp64", {{Holds::f64, Flow::in, Shape{n}}, out({n}), statistic_out({n})},
                [](Operations& ops, std::vector<Tensor>& t) {
                    ops.copy(t[0], t[1]);
                    ops.copy(t[0], t[2]);
                });
        compare("add", {in({n}), in_out({n}), main_gradient({n}, GradWrite::accumulate)},
                [](Operations& ops, std::vector<Tensor>& t) {
                    ops.add(t[0], t[1]);
                    ops.add(t[0], t[2]);
                });
        compare("scale", {in_out({n})},
                [](Operations& ops, std::vector<Tensor>& t) { ops.scale(t[0], 0.37); });
    }
}

TEST_F(Gpu, Embedding) {
    struct Sizes {
        std::int64_t t, b, c, v, first;
        int below;
    };
    for (const auto s : {Sizes{1, 1, 1, 1, 0, 1}, Sizes{5, 3, 7, 6, 10, 24}, Sizes{64, 4, 768, 1000, 0, 1000},
                         Sizes{128, 3, 100, 50, 20, 100}, Sizes{300, 2, 64, 3, 0, 3}}) {
        const Shape hidden{s.t, s.b, s.c};
        compare("embedding", {tokens({s.t, s.b}, s.below), in({s.v, s.c}), out(hidden)},
                [&](Operations& ops, std::vector<Tensor>& t) {
                    ops.embedding_forward(t[0], t[1], s.first, t[2]);
                });
        compare("embedding gradient",
                {tokens({s.t, s.b}, s.below), in(hidden), main_gradient({s.v, s.c}, GradWrite::accumulate)},
                [&](Operations& ops, std::vector<Tensor>& t) {
                    ops.embedding_weight_gradient(t[0], t[1], s.first, t[2]);
                });
        compare("positions", {in({s.t + 2, s.c}), in_out(hidden)},
                [](Operations& ops, std::vector<Tensor>& t) { ops.position_forward(t[0], 1, t[1]); });
        compare("positions gradient", {in(hidden), main_gradient({s.t + 2, s.c}, GradWrite::accumulate)},
                [](Operations& ops, std::vector<Tensor>& t) { ops.position_weight_gradient(t[0], 2, t[1]); });
    }
}

TEST_F(Gpu, Dropout) {
    for (const double probability : {0.0, 0.1, 0.75}) {
        for (const Shape& shape : {Shape{1, 1, 1}, Shape{5, 3, 7}, Shape{9, 2, 768}, Shape{33, 2, 130}}) {
            Dropout dropout{.probability = probability,
                            .seed = 77,
                            .site = DropoutSite::mlp_output,
                            .layer = 5,
                            .first_sample = (std::int64_t{1} << 32) - 1, // row 1 is beyond 32 bits
                            .first_position = 11};
            const std::string what = concat("dropout ", probability, " of ", shape.text());
            compare(what, {in(shape), in({shape[2]}), in(shape), out(shape)},
                    [&](Operations& ops, std::vector<Tensor>& t) {
                        ops.bias_dropout_residual(t[0], t[1], t[2], dropout, t[3]);
                    });
            compare(what + " in place, without bias", {in_out(shape), in(shape)},
                    [&](Operations& ops, std::vector<Tensor>& t) {
                        ops.bias_dropout_residual(t[0], {}, t[1], dropout, t[0]);
                    });
            // Ones show the mask itself: equal to the CPU's, element by element.
            compare(
                what + " gradient", {in(shape, 1, 1), out(shape)},
                [&](Operations& ops, std::vector<Tensor>& t) { ops.dropout_gradient(t[0], dropout, t[1]); });
        }
    }
}

TEST_F(Gpu, CrossEntropy) {
    struct Sizes {
        std::int64_t n, v, valid, first;
        int below;
    };
    for (const auto s : {Sizes{1, 1, 1, 0, 1}, Sizes{7, 13, 11, 0, 11}, Sizes{64, 1000, 1000, 0, 1000},
                         Sizes{33, 512, 300, 200, 1000}, Sizes{5, 50304, 50257, 0, 50257}}) {
        const std::string what = concat("cross-entropy ", s.n, " x ", s.v);
        const Shape logits{s.n, s.v}, each{s.n}, two{2, s.n};
        compare(
            what + " maximum", {in(logits, -5, 5), statistic_out(each)},
            [&](Operations& ops, std::vector<Tensor>& t) { ops.cross_entropy_maximum(t[0], s.valid, t[1]); });
        compare(what + " sums",
                {in(logits, -5, 5), tokens(each, s.below), statistic(each, 4, 5), statistic_out(two)},
                [&](Operations& ops, std::vector<Tensor>& t) {
                    ops.cross_entropy_sums(t[0], s.valid, t[1], s.first, t[2], t[3]);
                });
        compare(what + " loss",
                {statistic(two, 1, 9), statistic(each, 0, 1), {Holds::stat, Flow::in_out, Shape{1}}},
                [&](Operations& ops, std::vector<Tensor>& t) {
                    ops.cross_entropy_loss(t[0], t[1], t[2]);
                    ops.cross_entropy_loss(t[0], {}, t[2]);
                });
        for (const bool masked : {false, true})
            compare(what + " gradient",
                    {in_out(logits), tokens(each, s.below), statistic(each, 1, 2),
                     statistic(two, 0.4 * static_cast<double>(s.v), 0.5 * static_cast<double>(s.v)),
                     statistic(each, 0, 1)},
                    [&](Operations& ops, std::vector<Tensor>& t) {
                        ops.cross_entropy_gradient(t[0], s.valid, t[1], s.first, t[2], t[3],
                                                   masked ? t[4] : Tensor{}, 0.01);
                    });
    }
}

// Losses and gradients from one pass: a row in one block, in two, four and eight blocks (on a GPU with 228
// KiB of shared memory bf16 changes at 38272, 76416 and 152320 columns, fp32 at half of them), one that eight
// blocks do not hold, ragged ones, more rows than are at work at once (fp32). Among the rows: a maximum that
// rises along the row, parts without a valid column, -inf, NaN in the padding, a masked one, targets outside.
TEST_F(Gpu, CrossEntropyAtOnce) {
    struct Sizes {
        std::int64_t n, v, valid;
    };
    for (const auto s :
         {Sizes{1, 1, 1}, Sizes{7, 13, 11}, Sizes{40, 1000, 999}, Sizes{4, 38272, 38272},
          Sizes{300, 38336, 38273}, Sizes{6, 50304, 50257}, Sizes{4, 50257, 50257}, Sizes{5, 76416, 40000},
          Sizes{5, 76480, 76417}, Sizes{3, 100000, 99991}, Sizes{3, 131072, 9}, Sizes{5, 152064, 151643},
          Sizes{2, 152321, 152320}, Sizes{3, 300001, 300000}, Sizes{1, 930000, 929991}}) {
        const Shape logits{s.n, s.v}, each{s.n};
        const auto prepare = [&](Values& inputs) {
            for (std::int64_t r = 0; r < s.n; ++r) {
                const auto row = inputs[0].begin() + r * s.v;
                std::fill(row + s.valid, row + s.v, std::nan(""));
                if (r == 1)
                    std::fill(row, row + s.valid / 3, -std::numeric_limits<double>::infinity());
                if (r == 2)
                    for (std::int64_t c = 0; c < s.valid; ++c)
                        row[c] = static_cast<double>(c * 80 / s.valid) / 8 - 5;
            }
            const std::pair<std::size_t, std::int64_t> targets[] = {
                {0, s.valid - 1}, {2, 0}, {3, s.valid}, {4, -1}};
            for (const auto& [row, target] : targets)
                if (static_cast<std::int64_t>(row) < s.n)
                    inputs[1][row] = static_cast<double>(target);
            if (s.n > 1)
                inputs[1][1] = static_cast<double>(s.valid - s.valid / 2), inputs[2][1] = 0;
        };
        for (const bool masked : {false, true})
            compare(
                concat("cross-entropy at once ", s.n, " x ", s.v),
                {{Holds::act, Flow::in_out, logits, -5, 5},
                 tokens(each, static_cast<int>(s.valid)),
                 statistic(each, 0, 1),
                 statistic_out(each),
                 statistic_out({2, s.n}),
                 {Holds::stat, Flow::in_out, Shape{1}}},
                [&](Operations& ops, std::vector<Tensor>& t) {
                    ops.cross_entropy(t[0], s.valid, t[1], masked ? t[2] : Tensor{}, 0.5, t[3], t[4], t[5]);
                },
                {}, prepare);
    }
}

TEST_F(Gpu, RmsNorm) {
    struct Sizes {
        std::int64_t n, c;
    };
    for (const auto [n, c] : {Sizes{1, 1}, Sizes{3, 7}, Sizes{33, 64}, Sizes{130, 768}, Sizes{9, 1023},
                              Sizes{20, 1536}, Sizes{17, 3584}, Sizes{5, 12288}}) {
        const std::string what = concat("rms norm ", n, " x ", c);
        compare(what, {in({n, c}, -1, 3), in({c}), out({n, c}), statistic_out({n})},
                [](Operations& ops, std::vector<Tensor>& t) {
                    ops.rms_norm_forward(t[0], t[1], 1e-6, t[2], t[3]);
                });
        for (const GradWrite write : kWrites) {
            compare(what + " input gradient",
                    {in({n, c}), in({n, c}), in({c}), statistic({n}, 0.5, 2),
                     write == GradWrite::accumulate ? in_out({n, c}) : out({n, c})},
                    [&](Operations& ops, std::vector<Tensor>& t) {
                        ops.rms_norm_input_gradient(t[0], t[1], t[2], t[3], t[4], write);
                    });
            compare(what + " weight gradient",
                    {in({n, c}), in({n, c}), statistic({n}, 0.5, 2), main_gradient({c}, write)},
                    [&](Operations& ops, std::vector<Tensor>& t) {
                        ops.rms_norm_weight_gradient(t[0], t[1], t[2], t[3], write);
                    });
        }
    }
}

TEST_F(Gpu, SwiGlu) {
    for (const auto& [n, f] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 7}, {100, 256}, {33, 1000}}) {
        compare("swiglu", {in({n, 2 * f}, -9, 9), out({n, f})},
                [](Operations& ops, std::vector<Tensor>& t) { ops.swiglu_forward(t[0], t[1]); });
        compare("swiglu gradient", {in({n, f}), in({n, 2 * f}, -9, 9), out({n, 2 * f})},
                [](Operations& ops, std::vector<Tensor>& t) { ops.swiglu_input_gradient(t[0], t[1], t[2]); });
    }
}

TEST_F(Gpu, Rotary) {
    struct Sizes {
        std::int64_t t, b, heads, others, dim, rotated;
    };
    for (const auto s : {Sizes{1, 1, 1, 0, 2, 2}, Sizes{5, 2, 3, 1, 7, 4}, Sizes{40, 2, 6, 2, 64, 64},
                         Sizes{9, 3, 4, 2, 128, 96}}) {
        const Shape qkv{s.t, s.b, s.heads + s.others, s.dim};
        for (const bool given : {false, true})
            for (const auto direction :
                 {backend::RotaryDirection::forward, backend::RotaryDirection::backward})
                compare("rotary",
                        {in_out(qkv), statistic({s.t + 3, s.rotated}),
                         tokens({s.t, s.b}, static_cast<int>(s.t + 3))},
                        [&](Operations& ops, std::vector<Tensor>& t) {
                            ops.rotary(t[0], s.heads, t[1], given ? t[2] : Tensor{}, given ? 0 : 2,
                                       direction);
                        });
    }
}

TEST_F(Gpu, PositionsOfTokens) {
    const Shape hidden{9, 4, 70}, each{9, 4};
    compare("position lookup", {in({12, 70}), tokens(each, 12), in_out(hidden)},
            [](Operations& ops, std::vector<Tensor>& t) { ops.position_lookup_forward(t[0], t[1], t[2]); });
    compare("position lookup gradient",
            {in(hidden), tokens(each, 12), main_gradient({12, 70}, GradWrite::accumulate)},
            [](Operations& ops, std::vector<Tensor>& t) {
                ops.position_lookup_weight_gradient(t[0], t[1], t[2]);
            });
}

TEST_F(Gpu, OptimizerStep) {
    for (const std::int64_t n : {1, 3, 1000, 200001}) {
        const auto buffer = [&](Flow flow, double low, double high) {
            return Buffer{Holds::stat, flow, Shape{n}, low, high};
        };
        const Adam adam{.learning_rate = 0.01, .weight_decay = 0.1, .step = 3};
        const std::vector<Buffer> buffers{buffer(Flow::in_out, -1, 1),
                                          buffer(Flow::in, -1, 1),
                                          buffer(Flow::in_out, -1, 1),
                                          buffer(Flow::in_out, 0.1, 1),
                                          {Holds::f64, Flow::in, Shape{1}, 0.5, 0.5},
                                          out({n})};
        compare("adam", buffers, [&](Operations& ops, std::vector<Tensor>& t) {
            ops.adam_update(t[0], t[1], t[2], t[3], t[5], t[4], adam);
        });
        for (const GradWrite write : kWrites)
            compare(
                "sum of squares",
                {in({n}), {Holds::f64, write == GradWrite::accumulate ? Flow::in_out : Flow::out, Shape{1}}},
                [&](Operations& ops, std::vector<Tensor>& t) { ops.sum_of_squares(t[0], t[1], write); });
    }
}

// The rest beside bf16 weights is updated bit for bit as fp32 master weights are, packed and one by one.
TEST_F(Gpu, OptimizerStepOfSplitMasterWeights) {
    constexpr std::int64_t kCount = 1003;
    for (const std::int64_t shift : {0, 1}) {
        const Shape shape{kCount};
        const auto on_device = [&](const auto& values) {
            using T = typename std::decay_t<decltype(values)>::value_type;
            const std::int64_t bytes = (kCount + shift) * static_cast<std::int64_t>(sizeof(T));
            const Tensor tensor(static_cast<T*>(gpu()->allocate(bytes)) + shift, shape, kDTypeOf<T>);
            std::vector<T> host = values;
            gpu()->copy_to_device(Tensor(std::span(host), shape), tensor);
            return tensor;
        };
        const auto back = [&]<class T>(const Tensor& tensor, T) {
            std::vector<T> values(kCount);
            gpu()->copy_to_host(tensor, Tensor(std::span(values), shape));
            gpu()->release(static_cast<T*>(tensor.data()) - shift,
                           (kCount + shift) * static_cast<std::int64_t>(sizeof(T)));
            return values;
        };
        std::mt19937 words(7);
        const auto draw_floats = [&] {
            std::vector<float> values(kCount);
            for (float& value : values)
                value = static_cast<float>(words() * 0x1.0p-31 - 1);
            return values;
        };
        const std::vector<float> master = draw_floats(), gradient = draw_floats();
        std::vector<BFloat16> high;
        std::vector<std::int16_t> rest;
        for (const float value : master) {
            high.push_back(SplitFloat(value).high);
            rest.push_back(SplitFloat(value).rest);
        }
        const std::vector<float> zeros(kCount);
        const Tensor whole = on_device(master), rests = on_device(rest), weights = on_device(high),
                     g = on_device(gradient), m = on_device(zeros), v = on_device(zeros),
                     m_split = on_device(zeros), v_split = on_device(zeros);
        std::vector<double> half{0.5};
        const Tensor factor(gpu()->allocate(sizeof(double)), Shape{1}, DType::f64);
        gpu()->copy_to_device(Tensor(std::span(half), Shape{1}), factor);
        for (int step = 1; step <= 3; ++step) {
            const Adam adam{.learning_rate = 0.01, .weight_decay = 0.1, .step = step};
            gpu()->compute().adam_update(whole, g, m, v, {}, factor, adam);
            gpu()->compute().adam_update(rests, g, m_split, v_split, weights, factor, adam);
        }
        const auto wanted = back(whole, float{});
        const auto found_high = back(weights, BFloat16{});
        const auto found_rest = back(rests, std::int16_t{});
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            ASSERT_EQ(static_cast<float>(SplitFloat(found_high[i], found_rest[i])), wanted[i]) << i;
            ASSERT_EQ(found_high[i].bits, SplitFloat(wanted[i]).high.bits) << i;
        }
        EXPECT_EQ(back(m_split, float{}), back(m, float{}));
        EXPECT_EQ(back(v_split, float{}), back(v, float{}));
        back(g, float{});
        gpu()->release(factor.data(), sizeof(double));
    }
}

// The clipped factor of the CPU, bit for bit.
TEST_F(Gpu, UpdateFactor) {
    const std::vector<Buffer> buffers{{Holds::f64, Flow::in, Shape{1}}, {Holds::f64, Flow::out, Shape{1}}};
    const auto cpu = backend::make_cpu_backend(1);
    for (const double squared_norm : {0.0, 1e-300, 0.3, 16.0, 12345.678, 1e308, HUGE_VAL, std::nan("")})
        for (const double clip_norm : {0.0, 0.1, 1.0}) {
            const auto factor_on = [&](backend::Backend& on) {
                return run(on, DType::f32, buffers, {{squared_norm}, {0.0}},
                           [&](Operations& ops, std::vector<Tensor>& t) {
                               ops.update_factor(t[0], {1.0 / 3, clip_norm}, t[1]);
                           })[1][0];
            };
            const double wanted = factor_on(*cpu), found = factor_on(*gpu());
            EXPECT_TRUE(found == wanted || (std::isnan(found) && std::isnan(wanted)))
                << squared_norm << ", clipped to " << clip_norm << ": " << found << " instead of " << wanted;
        }
}

// A copy in two halves holds what the stream had done when it was started.
TEST_F(Gpu, CopiesAFewBytesToTheHostInTwoHalves) {
    backend::Backend& on = *gpu();
    const Tensor value(on.allocate(sizeof(double)), Shape{1}, DType::f64);
    for (int round = 0; round < 10; ++round) {
        on.compute().fill(value, round);
        const backend::HostCopy first = on.start_copy_to_host(value);
        on.compute().fill(value, -1);
        const backend::HostCopy second = on.start_copy_to_host(value);
        std::array<double, 2> found{};
        on.finish_copy_to_host(first, Tensor(std::span(found).first(1), Shape{1}));
        on.finish_copy_to_host(second, Tensor(std::span(found).last(1), Shape{1}));
        EXPECT_EQ(found, (std::array<double, 2>{static_cast<double>(round), -1}));
    }
    on.release(value.data(), sizeof(double));
}

TEST_F(Gpu, AdamLeavesAllAloneWithoutAFiniteFactor) {
    for (const double factor : {std::nan(""), HUGE_VAL}) {
        const std::vector<Buffer> buffers(4, Buffer{Holds::stat, Flow::in_out, Shape{100}, 0.1, 1});
        std::vector<Buffer> all = buffers;
        all.push_back({Holds::f64, Flow::in, Shape{1}});
        Values inputs = draw(all, 3);
        for (auto& values : inputs)
            for (double& value : values)
                value = rounded_to(DType::f32, value);
        inputs[4] = {factor};
        const Values after =
            run(*gpu(), DType::f32, all, inputs, [](Operations& ops, std::vector<Tensor>& t) {
                ops.adam_update(t[0], t[1], t[2], t[3], {}, t[4], Adam{.learning_rate = 1});
            });
        for (std::size_t i = 0; i < 4; ++i)
            EXPECT_EQ(after[i], inputs[i]);
    }
}

TEST_F(Gpu, CountsMemoryAndKeepsItsScratch) {
    backend::Backend& on = *gpu();
    const std::int64_t before = on.allocated_bytes();
    void* const data = on.allocate(1000);
    EXPECT_EQ(on.allocated_bytes(), before + 1000);
    on.release(data, 1000);
    EXPECT_EQ(on.allocated_bytes(), before);
    EXPECT_THROW(on.allocate(std::int64_t{1} << 50), Error);
    on.synchronize(backend::StreamRole::compute); // that failure must not stay behind
}

} // namespace
} // namespace trireme::test
