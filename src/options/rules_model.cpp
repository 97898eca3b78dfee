// Rules of the model's shape, the layout and recompute.
#include <numeric>

#include "options/checker.hpp"
#include "trireme/base/error.hpp"

namespace trireme::options {
namespace {

// The multiples of `step` around `value`: "4 or 8"; only the upper one when the lower is 0.
std::string nearest_multiples(std::int64_t value, std::int64_t step) {
    const std::int64_t lower = value / step * step;
    return lower == 0 ? std::to_string(step) : concat(lower, " or ", lower + step);
}

std::int64_t largest_divisor_below(std::int64_t value, auto&& accepted) {
    for (std::int64_t divisor = value / 2; divisor >= 1; --divisor)
        if (value % divisor == 0 && accepted(divisor))
            return divisor;
    return 0;
}

// Megatron-LM's: SwiGLU's third matrix is paid for by two thirds of the width, in steps of 64 (hidden 4096:
// 10880).
void derive_mlp_width(Checker& check) {
    Values& v = check.values;
    const std::int64_t width = v.swiglu ? *v.hidden_size / 24 * 64 : *v.hidden_size * 4;
    if (width > 0)
        return check.derive("ffn-hidden-size", v.ffn_hidden_size, width);
    check.complain("8/3 of the hidden size, down to a multiple of 64, leaves no width for the MLP",
                   {"hidden-size", "swiglu", "ffn-hidden-size"},
                   concat("--ffn-hidden-size ", *v.hidden_size * 3));
    check.spoil("ffn-hidden-size");
}

} // namespace

void check_model(Checker& check) {
    Values& v = check.values;
    if (check.sound({"hidden-size", "ffn-hidden-size"}) && v.hidden_size && !v.ffn_hidden_size)
        derive_mlp_width(check);

    if (check.sound({"hidden-size", "num-attention-heads", "kv-channels"}) && v.hidden_size &&
        v.num_attention_heads && !v.kv_channels) {
        if (*v.hidden_size % *v.num_attention_heads == 0)
            check.derive("kv-channels", v.kv_channels, *v.hidden_size / *v.num_attention_heads);
        else
            check.complain(concat("hidden size ", *v.hidden_size, " is not a multiple of ",
                                  *v.num_attention_heads, " attention heads"),
                           {"hidden-size", "num-attention-heads", "kv-channels"},
                           concat("--hidden-size ", nearest_multiples(*v.hidden_size, *v.num_attention_heads),
                                  ", or give --kv-channels"));
    }

    if (check.sound({"seq-length", "max-position-embeddings"}) && v.seq_length && v.max_position_embeddings &&
        *v.seq_length > *v.max_position_embeddings)
        check.complain(concat("sequences of ", *v.seq_length, " tokens are longer than the ",
                              *v.max_position_embeddings, " positions of the model"),
                       {"seq-length", "max-position-embeddings"},
                       concat("--max-position-embeddings ", *v.seq_length));
}

void check_layout(Checker& check) {
    Values& v = check.values;
    constexpr std::string_view kTp = "tensor-model-parallel-size";
    constexpr std::string_view kPp = "pipeline-model-parallel-size";
    if (!check.sound({kTp, kPp}))
        return;
    const std::int64_t tp = v.tensor_model_parallel_size;
    const std::int64_t pp = v.pipeline_model_parallel_size;

    if (check.sound({"num-attention-heads"}) && v.num_attention_heads && *v.num_attention_heads % tp != 0)
        check.complain(concat(*v.num_attention_heads, " attention heads cannot be shared by TP ", tp,
                              ": the number of heads must be a multiple of it"),
                       {"num-attention-heads", kTp},
                       concat("--num-attention-heads ", nearest_multiples(*v.num_attention_heads, tp)));
    if (check.sound({"ffn-hidden-size"}) && v.ffn_hidden_size && *v.ffn_hidden_size % tp != 0)
        check.complain(concat("an MLP of width ", *v.ffn_hidden_size, " cannot be shared by TP ", tp,
                              ": the width must be a multiple of it"),
                       {"ffn-hidden-size", kTp},
                       concat("--ffn-hidden-size ", nearest_multiples(*v.ffn_hidden_size, tp)));
    if (check.sound({"num-query-groups"}) && v.num_query_groups && *v.num_query_groups % tp != 0 &&
        tp % *v.num_query_groups != 0) {
        const std::int64_t groups = *v.num_query_groups;
        check.complain(concat(groups, " query groups cannot be shared by TP ", tp,
                              ": one must be a multiple of the other"),
                       {"num-query-groups", kTp},
                       groups < tp ? concat("--", kTp, " ", std::gcd(groups, tp), ", or --num-query-groups ",
                                            std::gcd(groups, tp), " or ", tp)
                                   : concat("--num-query-groups ", nearest_multiples(groups, tp)));
    }
    if (check.sound({"sequence-parallel", "seq-length"}) && v.sequence_parallel && v.seq_length &&
        *v.seq_length % tp != 0)
        check.complain(concat("a sequence of ", *v.seq_length, " cannot be cut over TP ", tp,
                              ": with --sequence-parallel it must be a multiple of it"),
                       {"sequence-parallel", "seq-length", kTp},
                       concat("--seq-length ", nearest_multiples(*v.seq_length, tp)));
    // tp * pp may be absurdly large: compare by division, so that nothing overflows.
    const std::int64_t ranks = check.env.ranks;
    if (tp <= ranks && pp <= ranks / tp && ranks % (tp * pp) == 0)
        return;
    check.spoil(kTp); // there is no data-parallel size that the batch could be held against
    const bool comparable = tp <= (std::int64_t{1} << 31) / pp;
    if (!comparable) {
        check.complain_about_ranks(concat("TP ", tp, " x PP ", pp, " is more than there are ranks"),
                                   {kTp, kPp}, "");
        return;
    }
    std::string attempt = concat(nearest_multiples(ranks, tp * pp), " ranks");
    const auto fits = [&](std::int64_t a, std::int64_t b) { return ranks % (a * b) == 0; };
    if (const auto smaller = largest_divisor_below(tp, [&](std::int64_t d) { return fits(d, pp); }))
        attempt += concat(", or --", kTp, " ", smaller);
    else if (const auto fewer = largest_divisor_below(pp, [&](std::int64_t d) { return fits(tp, d); }))
        attempt += concat(", or --", kPp, " ", fewer);
    check.complain_about_ranks(concat(ranks, ranks == 1 ? " rank does" : " ranks do", " not fit TP ", tp,
                                      " x PP ", pp, ": the number of ranks must be a multiple of ", tp * pp),
                               {kTp, kPp}, attempt);
}

void check_recompute(Checker& check) {
    Values& v = check.values;
    if (!check.sound({"recompute-activations", "recompute-granularity", "recompute-method",
                      "recompute-num-layers", "recompute-modules"}))
        return;
    if (v.recompute_activations) {
        if (v.recompute_granularity && *v.recompute_granularity != "selective")
            return check.complain("--recompute-activations means selective recompute, not full",
                                  {"recompute-activations", "recompute-granularity"},
                                  "leave out one of the two");
        if (!v.recompute_granularity)
            check.derive("recompute-granularity", v.recompute_granularity, "selective");
    }
    if (v.recompute_granularity && check.sound({"pipeline-schedule"}) && v.pipeline_schedule == "zb-h1")
        return check.complain(
            "zb-h1 keeps activations until its delayed weight gradients: they are not recomputed",
            {"pipeline-schedule", "recompute-granularity"}, "--pipeline-schedule 1f1b, or no recompute");
    if (v.recompute_granularity == "selective") {
        if (v.recompute_modules.empty())
            check.derive("recompute-modules", v.recompute_modules, std::vector<std::string>{"core_attn"});
    } else if (!v.recompute_modules.empty()) {
        check.complain("--recompute-modules belongs to selective recompute",
                       {"recompute-granularity", "recompute-modules"},
                       "--recompute-granularity selective, or leave --recompute-modules out");
    }
    const bool full = v.recompute_granularity == "full";
    if (full && !v.recompute_method)
        check.complain("full recompute needs a method", {"recompute-granularity", "recompute-method"},
                       "--recompute-method uniform --recompute-num-layers 1 (least memory), or selective");
    else if (full && !v.recompute_num_layers)
        check.complain("full recompute needs a number of layers",
                       {"recompute-granularity", "recompute-method", "recompute-num-layers"},
                       "--recompute-num-layers 1");
    else if (!full && (v.recompute_method || v.recompute_num_layers))
        check.complain("--recompute-method and --recompute-num-layers belong to full recompute",
                       {"recompute-granularity", "recompute-method", "recompute-num-layers"},
                       "--recompute-granularity full, or leave them out");
}

} // namespace trireme::options
