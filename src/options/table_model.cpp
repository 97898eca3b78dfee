// Options of the layout, the model's shape and recompute.
#include "options/table.hpp"

namespace trireme::options {
namespace {

constexpr auto kModel = Belongs::to_model;

std::vector<Row> layout_rows() {
    return {
        {.name = "tensor-model-parallel-size",
         .placeholder = "N",
         .field = &Values::tensor_model_parallel_size,
         .by_default = "1",
         .range = at_least(1),
         .help = "ranks that share each layer's matrices (TP); neighbours, best inside one node"},
        {.name = "pipeline-model-parallel-size",
         .placeholder = "N",
         .field = &Values::pipeline_model_parallel_size,
         .by_default = "1",
         .range = at_least(1),
         .help = "stages that the layers are spread over (PP); the data-parallel size is ranks / (TP x PP)"},
        {.name = "pipeline-schedule",
         .placeholder = "NAME",
         .field = &Values::pipeline_schedule,
         .by_default = "1f1b",
         .choices = {"1f1b", "gpipe", "zb-h1"},
         .help =
             "order of forward and backward passes on a stage; zb-h1 delays weight gradients into the bubble",
         .commands = kOnlyPretrain},
        {.name = "num-layers-per-virtual-pipeline-stage",
         .placeholder = "N",
         .field = &Values::num_layers_per_virtual_pipeline_stage,
         .range = at_least(1),
         .help = "layers of a model chunk: a stage holds several, and the bubble shrinks by their number "
                 "(interleaved "
                 "1F1B)",
         .commands = kOnlyPretrain},
        {.name = "num-virtual-stages-per-pipeline-rank",
         .placeholder = "N",
         .field = &Values::num_virtual_stages_per_pipeline_rank,
         .range = at_least(1),
         .help = "the same said by the number of a stage's chunks; also where stages are uneven",
         .commands = kOnlyPretrain},
        {.name = "decoder-first-pipeline-num-layers",
         .placeholder = "N",
         .field = &Values::decoder_first_pipeline_num_layers,
         .range = at_least(1),
         .help =
             "layers of the first stage, all its chunks together; the other stages share the rest evenly"},
        {.name = "decoder-last-pipeline-num-layers",
         .placeholder = "N",
         .field = &Values::decoder_last_pipeline_num_layers,
         .range = at_least(1),
         .help = "layers of the last stage, likewise"},
        {.name = "account-for-embedding-in-pipeline-split",
         .field = &Values::account_for_embedding_in_pipeline_split,
         .help =
             "the embedding counts as a layer where layers are shared out evenly: the first stage has one "
             "less"},
        {.name = "account-for-loss-in-pipeline-split",
         .field = &Values::account_for_loss_in_pipeline_split,
         .help = "output layer and loss count as a layer: the last stage has one less"},
        {.name = "pipeline-model-parallel-layout",
         .placeholder = "LAYOUT",
         .field = &Values::pipeline_model_parallel_layout,
         .help = "auto: layers are spread so that the stage that computes most computes least, embedding, "
                 "output layer and recomputation counted; or every stage as letters, as in 'Et|tt|tL' (E "
                 "embedding, t layer, L "
                 "output layer and loss, | next stage, x*n and (...)*n repeat)"},
        {.name = "sequence-parallel",
         .field = &Values::sequence_parallel,
         .help = "between tensor-parallel regions each rank of a group holds its part of the sequence: less "
                 "activation memory at TP > 1"},
        {.name = "use-distributed-optimizer",
         .field = &Values::use_distributed_optimizer,
         .help = "optimizer state is cut over data-parallel ranks (ZeRO-1) instead of held by each",
         .commands = kOnlyPretrain},
        {.name = "overlap-grad-reduce",
         .field = &Values::overlap_grad_reduce,
         .help =
             "reduce a bucket of gradients over data-parallel ranks as soon as it is complete, beside the "
             "backward passes; the same bits",
         .commands = kOnlyPretrain},
        {.name = "overlap-param-gather",
         .field = &Values::overlap_param_gather,
         .help =
             "gather new parameters until the next forward pass needs them; with use-distributed-optimizer "
             "and overlap-grad-reduce; the same bits",
         .commands = kOnlyPretrain},
        {.name = "ddp-bucket-size",
         .placeholder = "N",
         .field = &Values::ddp_bucket_size,
         .by_default = "40000000",
         .range = at_least(1),
         .help = "parameters from which on a bucket is full: what is reduced, and overlaps, at once",
         .commands = kOnlyPretrain},
    };
}

std::vector<Row> model_rows() {
    return {
        {.name = "num-layers",
         .placeholder = "N",
         .field = &Values::num_layers,
         .range = at_least(1),
         .help = "transformer layers",
         .belongs = kModel},
        {.name = "hidden-size",
         .placeholder = "N",
         .field = &Values::hidden_size,
         .range = at_least(1),
         .help = "width of the residual stream",
         .belongs = kModel},
        {.name = "ffn-hidden-size",
         .placeholder = "N",
         .field = &Values::ffn_hidden_size,
         .range = at_least(1),
         .help = "width inside the MLP; if not given 4 x hidden-size, with swiglu 8/3 of it down to a "
                 "multiple of 64",
         .belongs = kModel},
        {.name = "num-attention-heads",
         .placeholder = "N",
         .field = &Values::num_attention_heads,
         .range = at_least(1),
         .help = "attention heads; a multiple of TP",
         .belongs = kModel},
        {.name = "kv-channels",
         .placeholder = "N",
         .field = &Values::kv_channels,
         .range = at_least(1),
         .help = "width of one head; hidden-size / num-attention-heads if not given",
         .belongs = kModel},
        {.name = "seq-length",
         .placeholder = "N",
         .field = &Values::seq_length,
         .range = at_least(1),
         .help = "tokens in a sample",
         .commands = kEveryRun | kOnlyImport,
         .belongs = kModel},
        {.name = "max-position-embeddings",
         .placeholder = "N",
         .field = &Values::max_position_embeddings,
         .range = at_least(1),
         .help = "positions of the model, rows of the learned table; at least seq-length",
         .belongs = kModel},
        {.name = "make-vocab-size-divisible-by",
         .placeholder = "N",
         .field = &Values::make_vocab_size_divisible_by,
         .by_default = "128",
         .range = at_least(1),
         .help = "the vocabulary is padded to a multiple of this x TP; the loss does not see the padding",
         .belongs = kModel},
        {.name = "init-method-std",
         .placeholder = "X",
         .field = &Values::init_method_std,
         .by_default = "0.02",
         .range = at_least(0),
         .help = "standard deviation of initial weights; / sqrt(2 x layers) where a block ends",
         .belongs = kModel},
        {.name = "hidden-dropout",
         .placeholder = "X",
         .field = &Values::hidden_dropout,
         .by_default = "0.1",
         .range = from_to_below(0, 1),
         .help = "share of residual branch values dropped in training",
         .belongs = kModel},
        {.name = "attention-dropout",
         .placeholder = "X",
         .field = &Values::attention_dropout,
         .by_default = "0.1",
         .range = from_to_below(0, 1),
         .help = "share of attention weights dropped in training",
         .belongs = kModel},
        {.name = "params-dtype",
         .placeholder = "TYPE",
         .field = &Values::params_dtype,
         .by_default = "fp32",
         .choices = {"fp32", "fp64", "bf16", "fp16"},
         .help = "type of weights and activations; gradients, master weights and moments of bf16 and fp16 "
                 "are fp32 "
                 "(fp64: to "
                 "hold layouts against each other)",
         .commands = kEveryRun | kOnlyExport | kOnlyImport,
         .belongs = kModel},
        {.name = "bf16", .field = &Values::bf16, .help = "short for --params-dtype bf16"},
        {.name = "fp16", .field = &Values::fp16, .help = "short for --params-dtype fp16"},
    };
}

std::vector<Row> recompute_rows() {
    return {
        {.name = "recompute-activations",
         .field = &Values::recompute_activations,
         .help = "short for --recompute-granularity selective"},
        {.name = "recompute-granularity",
         .placeholder = "WHAT",
         .field = &Values::recompute_granularity,
         .choices = {"selective", "full"},
         .help =
             "selective: what recompute-modules names is computed again in backward; full: whole layers are"},
        {.name = "recompute-modules",
         .placeholder = "MODULE...",
         .field = &Values::recompute_modules,
         .choices = {"core_attn", "layernorm", "mlp"},
         .help = "selective only: what is computed again; core_attn: scores and their sums (if not given); "
                 "layernorm: the norms before attention and MLP; mlp: what is as wide as the MLP"},
        {.name = "recompute-method",
         .placeholder = "HOW",
         .field = &Values::recompute_method,
         .choices = {"uniform", "block"},
         .help =
             "full only; uniform: chunks of N layers keep their input; block: the first N layers of a stage"},
        {.name = "recompute-num-layers",
         .placeholder = "N",
         .field = &Values::recompute_num_layers,
         .range = at_least(1),
         .help = "the N of recompute-method"},
    };
}

} // namespace

void add_model_rows(std::vector<Row>& rows) {
    append(rows, Group::layout, kEveryRun, layout_rows());
    append(rows, Group::model, kEveryRun, model_rows());
    append(rows, Group::model, kEveryRun, shape_rows());
    append(rows, Group::recompute, kOnlyPretrain, recompute_rows());
}

} // namespace trireme::options
