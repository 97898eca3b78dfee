// Options of the shapes that came after GPT-2's: positions, norms, MLP, grouped queries, biases, output
// layer. Their defaults are GPT-2's, as in Megatron-LM; those that mean something only with rope or with
// groups are absent without, so that neither the listing nor a checkpoint shows a value that does nothing.
#include "options/table.hpp"

namespace trireme::options {

std::vector<Row> shape_rows() {
    constexpr auto kModel = Belongs::to_model;
    return {
        {.name = "position-embedding-type",
         .placeholder = "NAME",
         .field = &Values::position_embedding_type,
         .by_default = "learned_absolute",
         .choices = {"learned_absolute", "rope", "none"},
         .help = "a learned table; rope: queries and keys are rotated; none: causal attention alone tells "
                 "positions",
         .belongs = kModel},
        {.name = "use-rotary-position-embeddings",
         .field = &Values::use_rotary_position_embeddings,
         .help = "short for --position-embedding-type rope"},
        {.name = "rotary-base",
         .placeholder = "N",
         .field = &Values::rotary_base,
         .range = at_least(2),
         .help = "base of rope's wavelengths; 10000 if not given",
         .belongs = kModel},
        {.name = "rotary-percent",
         .placeholder = "X",
         .field = &Values::rotary_percent,
         .range = {.at_least = {}, .above = 0, .at_most = 1, .below = {}},
         .help = "share of a head's dimensions that rope rotates, from the first on; 1 if not given",
         .belongs = kModel},
        {.name = "use-rope-scaling",
         .field = &Values::use_rope_scaling,
         .help = "rope's long wavelengths are stretched as in Llama 3.1, from 8192 positions on",
         .belongs = kModel},
        {.name = "rope-scaling-factor",
         .placeholder = "X",
         .field = &Values::rope_scaling_factor,
         .range = at_least(1),
         .help = "by how much; 8 if not given",
         .belongs = kModel},
        {.name = "normalization",
         .placeholder = "NAME",
         .field = &Values::normalization,
         .by_default = "LayerNorm",
         .choices = {"LayerNorm", "RMSNorm"},
         .help = "norm before attention, before the MLP and at the end",
         .belongs = kModel},
        {.name = "norm-epsilon",
         .placeholder = "X",
         .field = &Values::norm_epsilon,
         .by_default = "1e-05",
         .range = above(0),
         .help = "added to the variance or mean square in a norm",
         .belongs = kModel},
        {.name = "swiglu",
         .field = &Values::swiglu,
         .help = "the MLP is SwiGLU (a gate, three matrices) instead of GELU",
         .belongs = kModel},
        {.name = "group-query-attention",
         .field = &Values::group_query_attention,
         .help = "several heads share a key and a value",
         .belongs = kModel},
        {.name = "num-query-groups",
         .placeholder = "N",
         .field = &Values::num_query_groups,
         .range = at_least(1),
         .help =
             "keys and values a layer with group-query-attention, a multiple of TP or a divisor of it (then "
             "several tensor ranks hold the same); 1 if not given",
         .belongs = kModel},
        {.name = "untie-embeddings-and-output-weights",
         .field = &Values::untie_embeddings_and_output_weights,
         .help = "the output layer has weights of its own instead of the word embedding's",
         .belongs = kModel},
        {.name = "disable-bias-linear",
         .field = &Values::disable_bias_linear,
         .help = "linear layers have no biases",
         .belongs = kModel},
        {.name = "add-qkv-bias",
         .field = &Values::add_qkv_bias,
         .help = "with disable-bias-linear: query, key and value keep theirs",
         .belongs = kModel},
    };
}

} // namespace trireme::options
