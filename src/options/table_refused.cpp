// Megatron-LM names that Trireme knows and does not take: not in this version, refused for good, or renamed.
#include "options/table.hpp"

namespace trireme::options {
namespace {

std::vector<Row> not_yet_rows() {
    return {
        {.name = "grad-reduce-in-bf16", .help = "gradients are reduced in fp32 or wider"},
        {.name = "tp-comm-overlap", .help = "tensor-parallel communication does not overlap with computing"},
        {.name = "use-tp-pp-dp-mapping",
         .help = "tensor-parallel ranks are neighbours, then data-parallel, then pipeline"},
        {.name = "squared-relu", .help = "the MLP is GELU or, with --swiglu, SwiGLU"},
        {.name = "quick-geglu", .help = "the MLP is GELU or, with --swiglu, SwiGLU"},
        {.name = "apply-layernorm-1p", .help = "norm weights are stored as they are"},
        {.name = "rotary-interleaved",
         .help = "rope pairs a dimension with the one half the rotated width on"},
        {.name = "rotary-seq-len-interpolation-factor", .help = "use --use-rope-scaling"},
        {.name = "distribute-saved-activations", .help = "saved activations are whole on each rank"},
        {.name = "decrease-batch-size-if-needed", .help = "the batch size is taken as it is given"},
        {.name = "eval-micro-batch-size", .help = "evaluation uses the micro-batch size of training"},
        {.name = "eval-global-batch-size", .help = "evaluation uses the global batch size of training"},
        {.name = "data-args-path", .help = "use --data-path, or --config FILE"},
        {.name = "per-split-data-args-path",
         .help = "use --train-data-path, --valid-data-path and --test-data-path"},
        {.name = "mock-data", .help = "use --data-path"},
        {.name = "log-params-norm", .help = "the norm of the gradient is logged"},
        {.name = "log-num-zeros-in-grad", .help = "the norm of the gradient is logged"},
        {.name = "log-memory-to-tensorboard", .help = "memory is planned and shown at start"},
        {.name = "log-progress", .help = "metrics.jsonl holds the progress"},
        {.name = "skip-train", .help = "use trireme evaluate"},
        {.name = "full-validation", .help = "evaluation takes --eval-iters batches"},
    };
}

std::vector<Row> refused_rows() {
    return {
        {.name = "use-legacy-models", .help = "there is one implementation of the model: leave it out"},
        {.name = "num-experts", .help = "the model is dense"},
        {.name = "encoder-seq-length", .help = "GPT has one sequence length: --seq-length"},
        {.name = "apply-query-key-layer-scaling",
         .help = "scores are computed without it: it served fp16 in older programs"},
        {.name = "data-parallel-random-init", .help = "data-parallel copies start equal"},
        {.name = "no-mmap-bin-files", .help = "data files are always mapped"},
        {.name = "wandb-project",
         .help = "nothing is sent to other machines: metrics.jsonl holds the same figures"},
        {.name = "wandb-exp-name",
         .help = "nothing is sent to other machines: metrics.jsonl holds the same figures"},
        {.name = "local-rank", .help = "ranks are started by mpirun or srun, which say who they are"},
        {.name = "local_rank", .help = "ranks are started by mpirun or srun, which say who they are"},
        {.name = "nproc_per_node", .help = "ranks are started by mpirun or srun, which say who they are"},
        {.name = "nproc-per-node", .help = "ranks are started by mpirun or srun, which say who they are"},
        {.name = "nnodes", .help = "ranks are started by mpirun or srun, which say who they are"},
        {.name = "node_rank", .help = "ranks are started by mpirun or srun, which say who they are"},
        {.name = "node-rank", .help = "ranks are started by mpirun or srun, which say who they are"},
        {.name = "master_addr", .help = "ranks are started by mpirun or srun, which say who they are"},
        {.name = "master-addr", .help = "ranks are started by mpirun or srun, which say who they are"},
        {.name = "master_port", .help = "ranks are started by mpirun or srun, which say who they are"},
        {.name = "master-port", .help = "ranks are started by mpirun or srun, which say who they are"},
    };
}

std::vector<Row> renamed_rows() {
    return {
        {.name = "batch-size", .help = "micro-batch-size"},
        {.name = "warmup", .help = "lr-warmup-fraction"},
        {.name = "model-parallel-size", .help = "tensor-model-parallel-size"},
        {.name = "checkpoint-activations", .help = "recompute-activations"},
        {.name = "checkpoint-num-layers", .help = "recompute-num-layers"},
    };
}

void append_with(std::vector<Row>& rows, Status status, std::vector<Row> more) {
    for (Row& row : more) {
        row.status = status;
        row.arity = Arity::list; // whatever follows belongs to it: the error is about the name
    }
    append(rows, Group::megatron, kEveryCommand, std::move(more));
}

} // namespace

void add_refused_rows(std::vector<Row>& rows) {
    append_with(rows, Status::not_yet, not_yet_rows());
    append_with(rows, Status::refused, refused_rows());
    append_with(rows, Status::renamed, renamed_rows());
}

} // namespace trireme::options
