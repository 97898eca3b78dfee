// What a user can say to a sub-command, as plain typed fields that bear the options' names, and where each
// value came from. Absence means something where a field is std::optional: "not given, derive it or leave it
// out". The defaults stand in the option table (src/options/table*.cpp) and nowhere else; a Values made by
// hand is empty.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::options {

struct Values {
    // Layout
    std::int64_t tensor_model_parallel_size = 0;
    std::int64_t pipeline_model_parallel_size = 0;
    std::string pipeline_schedule;
    std::optional<std::int64_t> num_layers_per_virtual_pipeline_stage;
    std::optional<std::int64_t> num_virtual_stages_per_pipeline_rank;
    std::optional<std::int64_t> decoder_first_pipeline_num_layers;
    std::optional<std::int64_t> decoder_last_pipeline_num_layers;
    bool account_for_embedding_in_pipeline_split = false;
    bool account_for_loss_in_pipeline_split = false;
    std::optional<std::string> pipeline_model_parallel_layout;
    bool sequence_parallel = false;
    bool use_distributed_optimizer = false;
    bool overlap_grad_reduce = false;
    bool overlap_param_gather = false;
    std::int64_t ddp_bucket_size = 0;

    // Model
    std::optional<std::int64_t> num_layers;
    std::optional<std::int64_t> hidden_size;
    std::optional<std::int64_t> ffn_hidden_size;
    std::optional<std::int64_t> num_attention_heads;
    std::optional<std::int64_t> kv_channels;
    std::optional<std::int64_t> seq_length;
    std::optional<std::int64_t> max_position_embeddings;
    std::int64_t make_vocab_size_divisible_by = 0;
    double init_method_std = 0;
    double hidden_dropout = 0;
    double attention_dropout = 0;
    std::string params_dtype;
    bool bf16 = false;
    bool fp16 = false;
    std::string position_embedding_type;
    bool use_rotary_position_embeddings = false;
    std::optional<std::int64_t> rotary_base;
    std::optional<double> rotary_percent;
    bool use_rope_scaling = false;
    std::optional<double> rope_scaling_factor;
    std::string normalization;
    double norm_epsilon = 0;
    bool swiglu = false;
    bool group_query_attention = false;
    std::optional<std::int64_t> num_query_groups;
    bool untie_embeddings_and_output_weights = false;
    bool disable_bias_linear = false;
    bool add_qkv_bias = false;

    // Recompute
    bool recompute_activations = false;
    std::optional<std::string> recompute_granularity;
    std::optional<std::string> recompute_method;
    std::optional<std::int64_t> recompute_num_layers;
    std::vector<std::string> recompute_modules;

    // Batch
    std::optional<std::int64_t> micro_batch_size;
    std::optional<std::int64_t> global_batch_size;
    std::optional<std::int64_t> gradient_accumulation_steps;
    std::vector<std::string> rampup_batch_size;
    std::vector<std::string> step_batch_size_schedule;

    // Training length
    std::optional<std::int64_t> train_iters;
    std::optional<std::int64_t> train_samples;
    std::optional<std::int64_t> exit_interval;
    std::optional<double> exit_duration_in_mins;
    bool exit_signal_handler = false;
    bool no_exit_signal_handler = false;
    std::optional<std::string> exit_signal;
    std::int64_t seed = 0;
    bool no_check_for_nan_in_loss_and_grad = false;
    std::optional<std::int64_t> check_replicas;
    bool rerun_nan = false;

    // Optimizer
    std::optional<double> lr;
    double min_lr = 0;
    std::string lr_decay_style;
    std::optional<std::int64_t> lr_decay_iters;
    std::optional<std::int64_t> lr_decay_samples;
    std::optional<std::int64_t> lr_warmup_iters;
    std::optional<std::int64_t> lr_warmup_samples;
    std::optional<double> lr_warmup_fraction;
    double lr_warmup_init = 0;
    std::string lr_wsd_decay_style;
    std::optional<std::int64_t> lr_wsd_decay_iters;
    std::optional<std::int64_t> lr_wsd_decay_samples;
    bool override_opt_param_scheduler = false;
    bool use_checkpoint_opt_param_scheduler = false;
    double weight_decay = 0;
    std::string weight_decay_incr_style;
    std::optional<double> start_weight_decay;
    std::optional<double> end_weight_decay;
    double adam_beta1 = 0;
    double adam_beta2 = 0;
    double adam_eps = 0;
    double clip_grad = 0;
    std::optional<double> loss_scale;
    double initial_loss_scale = 0;
    double min_loss_scale = 0;
    std::int64_t loss_scale_window = 0;
    std::int64_t hysteresis = 0;

    // Data
    std::vector<std::string> data_path;
    std::vector<std::string> train_data_path;
    std::vector<std::string> valid_data_path;
    std::vector<std::string> test_data_path;
    std::optional<std::string> data_cache_path;
    std::string split;
    std::string dataloader_type;
    bool reset_position_ids = false;
    bool reset_attention_mask = false;
    bool eod_mask_loss = false;
    std::int64_t num_workers = 0;
    std::optional<std::string> tokenizer_type;
    std::optional<std::string> vocab_file;
    std::optional<std::string> merge_file;
    std::optional<std::string> tokenizer_model;
    std::optional<std::int64_t> vocab_size;

    // Log and evaluation
    std::int64_t log_interval = 0;
    std::int64_t timing_log_level = 0;
    bool log_gpu = false;
    std::optional<std::int64_t> profile;
    std::optional<std::int64_t> eval_interval;
    std::int64_t eval_iters = 0;

    // Checkpoint
    std::optional<std::string> save;
    std::optional<std::string> load;
    std::optional<std::int64_t> save_interval;
    bool finetune = false;
    bool no_load_optim = false;
    bool no_load_rng = false;
    bool no_save_optim = false;
    bool exit_on_missing_checkpoint = false;
    std::optional<std::int64_t> ckpt_step;
    bool no_load_fallback = false;
    bool use_checkpoint_args = false;
    std::int64_t save_retain = 0;
    std::optional<std::int64_t> save_retain_interval;
    bool no_save_on_exit = false;
    bool no_verify_save = false;
    bool exit_on_save_failure = false;
    bool async_save = false;
    std::optional<std::int64_t> save_buffer_mb;
    std::int64_t save_stripe_count = 0;
    std::optional<std::string> save_stripe_size;

    // Checkpoint tools
    bool norms = false;
    std::string max_shard_size;

    // Machine
    std::optional<std::string> device;
    bool no_deterministic = false;
    std::int64_t threads_per_rank = 0;
    double distributed_timeout_minutes = 0;

    // Plan
    std::optional<std::int64_t> world_size;
    std::optional<std::string> machine;
    std::optional<std::string> draw;
    std::optional<std::int64_t> search;
    std::optional<std::int64_t> search_max_tensor_parallel;
    // Preflight
    std::optional<std::string> expect;
    bool json = false;

    // Generation
    std::optional<std::string> prompt;
    std::int64_t max_new_tokens = 0;
    double temperature = 0;
    std::int64_t top_k = 0;
};

// Every option at its default.
Values default_values();

// Where the value of an option came from: "command line", "tiny.cfg:12", "derived" or "default".
class Sources {
  public:
    std::string of(std::string_view name) const {
        const auto found = sources_.find(name);
        return found == sources_.end() ? "default" : found->second;
    }
    bool given(std::string_view name) const {
        const auto found = sources_.find(name);
        return found != sources_.end() && found->second != kDerived;
    }
    bool derived(std::string_view name) const { return of(name) == kDerived; }
    void set(std::string_view name, std::string source) { sources_[std::string(name)] = std::move(source); }
    void set_derived(std::string_view name) { set(name, std::string(kDerived)); }

  private:
    static constexpr std::string_view kDerived = "derived";
    std::map<std::string, std::string, std::less<>> sources_;
};

} // namespace trireme::options
