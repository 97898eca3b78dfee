// Options with everything derived and every rule checked: what train works from. The rules are Megatron-LM's,
// and all that are broken are reported in one Error with the values, where they came from and what to try.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/options/parse.hpp"
#include "trireme/options/values.hpp"
#include "trireme/topology/batch_schedule.hpp"
#include "trireme/topology/placement.hpp"

namespace trireme::options {

enum class PipelineSchedule { one_forward_one_backward, gpipe, zb_h1 };
enum class ParamsDtype { fp32, fp64, bf16, fp16 };
enum class PositionEmbedding { learned_absolute, rope, none };
enum class Normalization { layer_norm, rms_norm };
enum class MlpActivation { gelu, swiglu };
enum class LinearBiases { all, query_key_value, none };
enum class OutputWeights { tied, untied };
// Who says how many layers a stage has: the split of the options, or the costs of layers and ends.
enum class LayerSplit { as_said, balanced };
enum class Recompute { none, selective, full_uniform, full_block };
enum class RecomputeModule { core_attention, norms, mlp };
enum class LrDecayStyle { constant, linear, cosine, inverse_square_root, wsd };
enum class WsdDecayStyle { exponential, linear, cosine, minus_sqrt };
enum class WeightDecayStyle { constant, linear, cosine };
// What counts on resuming when the schedule of rates differs from the checkpoint's.
enum class RatesFrom { options, checkpoint };
enum class DataloaderType { single, cyclic };
enum class TokenizerType { gpt2_bpe, hf_file, null };
enum class Device { cpu, cuda };
enum class DeviceSupport { cpu_only, cpu_and_cuda };

// What the options are held against: the ranks that were started and what this build can do.
struct Environment {
    std::int64_t ranks = 1;
    std::string launcher = "mpirun"; // who started the ranks; for messages
    std::int64_t ranks_on_node = 1;
    std::int64_t cores_on_node = 1;
    DeviceSupport devices = DeviceSupport::cpu_only;
    bool under_slurm = false; // in a job
};

// No optionals: 0 or "" where "none" is a possible outcome, as said beside the field.
struct Resolved {
    Command command = Command::pretrain;

    struct Layout {
        std::int64_t ranks = 1; // = tensor_parallel * pipeline_parallel * data_parallel
        std::int64_t tensor_parallel = 1;
        std::int64_t pipeline_parallel = 1;
        std::int64_t data_parallel = 1;
        PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;
        std::int64_t model_chunks = 1; // of each stage; more than one: interleaved 1F1B
        LayerSplit layer_split = LayerSplit::as_said;
        topology::PipelineSplit split; // even if layers are balanced
        bool sequence_parallel = false;
        bool distributed_optimizer = false; // ZeRO-1
        bool overlap_grad_reduce = false;
        bool overlap_param_gather = false;
        std::int64_t ddp_bucket_size = 0; // elements
    } layout;

    struct Model {
        std::int64_t num_layers = 0;
        std::int64_t hidden_size = 0;
        std::int64_t ffn_hidden_size = 0;
        std::int64_t num_attention_heads = 0;
        std::int64_t kv_channels = 0; // head dim; heads * kv_channels may differ from hidden_size
        std::int64_t seq_length = 0;
        std::int64_t max_position_embeddings = 0;
        std::int64_t make_vocab_size_divisible_by = 128; // vocabulary is padded to a multiple of this * TP
        double init_method_std = 0;
        double hidden_dropout = 0;
        double attention_dropout = 0;
        ParamsDtype params_dtype = ParamsDtype::fp32; // bf16, fp16: master weights and gradients fp32
        std::int64_t num_query_groups = 0;            // num_attention_heads without grouped queries
        PositionEmbedding position_embedding = PositionEmbedding::learned_absolute;
        std::int64_t rotary_base = 0;   // 0 without rope
        double rotary_percent = 0;      // 0 without rope
        double rope_scaling_factor = 0; // 0: frequencies are not scaled
        Normalization normalization = Normalization::layer_norm;
        double norm_epsilon = 0;
        MlpActivation activation = MlpActivation::gelu;
        OutputWeights output_weights = OutputWeights::tied;
        LinearBiases biases = LinearBiases::all;
    } model;

    Recompute recompute = Recompute::none;
    std::vector<RecomputeModule> recompute_modules; // of selective
    std::int64_t recompute_num_layers = 0;          // uniform: layers a chunk; block: layers a stage; else 0

    struct Batch {
        std::int64_t micro_batch_size = 0;
        std::int64_t global_batch_size = 0; // the last of the schedule
        std::int64_t num_microbatches = 0;  // per rank and step: global / (micro * DP)
        topology::BatchSchedule schedule = topology::BatchSchedule::constant(1);
    } batch;

    struct Training {
        std::int64_t train_iters = 0;
        std::int64_t train_samples = 0; // of train_iters whole steps
        std::int64_t exit_interval = 0; // 0: none
        std::uint64_t seed = 0;
        bool check_for_nan = true;
        std::int64_t check_replicas = 0; // every so many iterations; 0: never
        bool rerun_nan = false;
    } training;

    struct Exit {
        std::vector<std::string> signals; // to save and exit on: SIGUSR1 ...; empty: none is heeded
        double duration_minutes = 0;      // 0: no limit
    } exit;

    struct Optimizer {
        double lr = 0;
        double min_lr = 0;
        LrDecayStyle lr_decay_style = LrDecayStyle::linear;
        std::int64_t lr_decay_samples = 0;
        std::int64_t lr_warmup_samples = 0;
        double lr_warmup_init = 0;
        WsdDecayStyle wsd_decay_style = WsdDecayStyle::exponential;
        std::int64_t wsd_decay_samples = 0; // 0 unless the decay style is WSD
        RatesFrom rates_from = RatesFrom::options;
        double start_weight_decay = 0;
        double end_weight_decay = 0; // equal to start unless the style says otherwise
        WeightDecayStyle weight_decay_style = WeightDecayStyle::constant;
        double adam_beta1 = 0;
        double adam_beta2 = 0;
        double adam_eps = 0;
        double clip_grad = 0;          // 0: no clipping
        double fixed_loss_scale = 0;   // fp16; 0: dynamic
        double initial_loss_scale = 0; // dynamic
        double min_loss_scale = 0;
        std::int64_t loss_scale_window = 0;
        std::int64_t loss_scale_hysteresis = 0;
    } optimizer;

    struct Data {
        std::vector<std::string> data_path;                 // empty: part_paths
        std::array<std::vector<std::string>, 3> part_paths; // of train, valid and test
        std::string cache_path;                             // "": beside each file
        std::string split;
        DataloaderType dataloader_type = DataloaderType::single;
        bool reset_position_ids = false;
        bool reset_attention_mask = false;
        bool eod_mask_loss = false;
        std::int64_t num_workers = 0;
        TokenizerType tokenizer_type = TokenizerType::gpt2_bpe;
        // "" or 0 where the tokenizer does not need it
        std::string vocab_file;
        std::string merge_file;
        std::string tokenizer_model;
        std::int64_t vocab_size = 0;
    } data;

    struct Evaluation {
        std::int64_t eval_interval = 0; // 0: no evaluation during training
        std::int64_t eval_iters = 0;    // 0: no evaluation at all
    } evaluation;

    struct Checkpoint {
        std::string save;               // "": none
        std::string load;               // "": none
        std::int64_t save_interval = 0; // 0: only at the end
        bool finetune = false;
        bool load_optim = true;
        bool load_rng = true;
        bool save_optim = true;
        bool exit_on_missing_checkpoint = false;
        std::optional<std::int64_t> step;      // this checkpoint and no other
        bool fall_back = true;                 // to an earlier one if it is damaged
        std::int64_t save_retain = 0;          // 0: all stay
        std::int64_t save_retain_interval = 0; // 0: none stays for ever
        bool save_on_exit = true;
        bool verify_save = true;
        bool exit_on_save_failure = false;
        bool async_save = false;
        std::int64_t save_buffer_bytes = 0; // 0: as much as the state takes
        // Lustre: targets of a file and bytes on each in turn; 0: its default, -1: all targets
        std::int64_t save_stripe_count = 0;
        std::int64_t save_stripe_bytes = 0;
    } checkpoint;

    struct Machine {
        Device device = Device::cpu;
        bool deterministic = true; // cuda: the same bits from run to run
        std::int64_t threads_per_rank = 1;
        std::chrono::milliseconds distributed_timeout{};
    } machine;

    struct Run {
        std::int64_t log_interval = 0;
        std::int64_t timing_log_level = 0; // 1: by kind of work, 2: by phase
        bool log_gpu = false;
        std::int64_t profiled_steps = 0; // 0: no trace
    } run;

    struct Plan {
        std::string machine;                         // "": no times
        std::string draw;                            // "": no chart
        std::int64_t search = 0;                     // 0: the layout given
        std::int64_t search_max_tensor_parallel = 0; // 0: a node's GPUs
    } plan;

    struct Generation {
        std::string prompt;
        std::int64_t max_new_tokens = 0;
        double temperature = 1; // 0: the most likely token
        std::int64_t top_k = 0; // 0: all tokens
    } generation;

    // The same as options again, derived ones filled in: for listing() and for the checkpoint (to_config).
    Values values;
    Sources sources;
    std::vector<std::string> notes;
};

// Throws one Error (usage) with all problems of `parsed` and all broken rules.
Resolved resolve(const Parsed& parsed, const Environment& environment);

// Every option of the command, sorted, dot-padded, one a line, as Megatron-LM prints at start; what is not a
// default says where it came from: "  lr .............................................. 0.00015 (command
// line)".
std::vector<std::string> listing(const Resolved& resolved);

} // namespace trireme::options
