// Runs the rules and, when all hold, writes the values down in the form that train works from.
#include "trireme/options/resolve.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "options/batch_schedule.hpp"
#include "options/checker.hpp"
#include "options/convert.hpp"
#include "options/pipeline_split.hpp"
#include "options/resolved_values.hpp"
#include "options/table.hpp"
#include "trireme/base/error.hpp"

namespace trireme::options {
namespace {

// The table has checked that `text` is one of the choices; here it becomes the enumerator of that name.
template <class Enum, std::size_t count>
Enum choose(const std::string& text, const std::array<std::pair<std::string_view, Enum>, count>& names) {
    for (const auto& [name, value] : names)
        if (text == name)
            return value;
    TRIREME_ASSERT(false, "no meaning for ", text);
    return {};
}

template <class Enum>
using Name = std::pair<std::string_view, Enum>;

constexpr std::array kSchedules{Name<PipelineSchedule>{"1f1b", PipelineSchedule::one_forward_one_backward},
                                Name<PipelineSchedule>{"gpipe", PipelineSchedule::gpipe},
                                Name<PipelineSchedule>{"zb-h1", PipelineSchedule::zb_h1}};
constexpr std::array kDtypes{
    Name<ParamsDtype>{"fp32", ParamsDtype::fp32}, Name<ParamsDtype>{"fp64", ParamsDtype::fp64},
    Name<ParamsDtype>{"bf16", ParamsDtype::bf16}, Name<ParamsDtype>{"fp16", ParamsDtype::fp16}};
constexpr std::array kPositionEmbeddings{
    Name<PositionEmbedding>{"learned_absolute", PositionEmbedding::learned_absolute},
    Name<PositionEmbedding>{"rope", PositionEmbedding::rope},
    Name<PositionEmbedding>{"none", PositionEmbedding::none}};
constexpr std::array kNormalizations{Name<Normalization>{"LayerNorm", Normalization::layer_norm},
                                     Name<Normalization>{"RMSNorm", Normalization::rms_norm}};
constexpr std::array kDecayStyles{
    Name<LrDecayStyle>{"constant", LrDecayStyle::constant},
    Name<LrDecayStyle>{"linear", LrDecayStyle::linear}, Name<LrDecayStyle>{"cosine", LrDecayStyle::cosine},
    Name<LrDecayStyle>{"inverse-square-root", LrDecayStyle::inverse_square_root},
    Name<LrDecayStyle>{"WSD", LrDecayStyle::wsd}};
constexpr std::array kWsdStyles{Name<WsdDecayStyle>{"exponential", WsdDecayStyle::exponential},
                                Name<WsdDecayStyle>{"linear", WsdDecayStyle::linear},
                                Name<WsdDecayStyle>{"cosine", WsdDecayStyle::cosine},
                                Name<WsdDecayStyle>{"minus_sqrt", WsdDecayStyle::minus_sqrt}};
constexpr std::array kWeightDecayStyles{Name<WeightDecayStyle>{"constant", WeightDecayStyle::constant},
                                        Name<WeightDecayStyle>{"linear", WeightDecayStyle::linear},
                                        Name<WeightDecayStyle>{"cosine", WeightDecayStyle::cosine}};
constexpr std::array kDataloaders{Name<DataloaderType>{"single", DataloaderType::single},
                                  Name<DataloaderType>{"cyclic", DataloaderType::cyclic}};
constexpr std::array kTokenizers{Name<TokenizerType>{"GPT2BPETokenizer", TokenizerType::gpt2_bpe},
                                 Name<TokenizerType>{"HFTokenizerFile", TokenizerType::hf_file},
                                 Name<TokenizerType>{"NullTokenizer", TokenizerType::null}};
constexpr std::array kModules{Name<RecomputeModule>{"core_attn", RecomputeModule::core_attention},
                              Name<RecomputeModule>{"layernorm", RecomputeModule::norms},
                              Name<RecomputeModule>{"mlp", RecomputeModule::mlp}};
constexpr std::array kDevices{Name<Device>{"cpu", Device::cpu}, Name<Device>{"cuda", Device::cuda}};

Recompute recompute_of(const Values& v) {
    if (!v.recompute_granularity)
        return Recompute::none;
    if (*v.recompute_granularity == "selective")
        return Recompute::selective;
    return *v.recompute_method == "uniform" ? Recompute::full_uniform : Recompute::full_block;
}

LinearBiases biases_of(const Values& v) {
    if (!v.disable_bias_linear)
        return LinearBiases::all;
    return v.add_qkv_bias ? LinearBiases::query_key_value : LinearBiases::none;
}

Resolved::Optimizer optimizer_of(const Values& v) {
    Resolved::Optimizer optimizer{.lr = *v.lr,
                                  .min_lr = v.min_lr,
                                  .lr_decay_style = choose(v.lr_decay_style, kDecayStyles),
                                  .lr_warmup_init = v.lr_warmup_init,
                                  .wsd_decay_style = choose(v.lr_wsd_decay_style, kWsdStyles),
                                  .rates_from = v.use_checkpoint_opt_param_scheduler ? RatesFrom::checkpoint
                                                                                     : RatesFrom::options,
                                  .start_weight_decay = v.start_weight_decay.value_or(v.weight_decay),
                                  .end_weight_decay = v.end_weight_decay.value_or(v.weight_decay),
                                  .weight_decay_style = choose(v.weight_decay_incr_style, kWeightDecayStyles),
                                  .adam_beta1 = v.adam_beta1,
                                  .adam_beta2 = v.adam_beta2,
                                  .adam_eps = v.adam_eps,
                                  .clip_grad = v.clip_grad,
                                  .fixed_loss_scale = v.loss_scale.value_or(0),
                                  .initial_loss_scale = v.initial_loss_scale,
                                  .min_loss_scale = v.min_loss_scale,
                                  .loss_scale_window = v.loss_scale_window,
                                  .loss_scale_hysteresis = v.hysteresis};
    const std::int64_t global = *v.global_batch_size;
    optimizer.lr_decay_samples = v.lr_decay_samples ? *v.lr_decay_samples : *v.lr_decay_iters * global;
    if (v.lr_warmup_fraction) // Megatron-LM keeps the fraction of a sample
        optimizer.lr_warmup_samples =
            std::llround(*v.lr_warmup_fraction * static_cast<double>(optimizer.lr_decay_samples));
    else
        optimizer.lr_warmup_samples = v.lr_warmup_samples.value_or(v.lr_warmup_iters.value_or(0) * global);
    if (optimizer.lr_decay_style == LrDecayStyle::wsd)
        optimizer.wsd_decay_samples =
            v.lr_wsd_decay_samples.value_or(v.lr_wsd_decay_iters.value_or(0) * global);
    return optimizer;
}

Resolved::Data data_of(const Values& v) {
    return {.data_path = v.data_path,
            .part_paths = {v.train_data_path, v.valid_data_path, v.test_data_path},
            .cache_path = v.data_cache_path.value_or(""),
            .split = v.split,
            .dataloader_type = choose(v.dataloader_type, kDataloaders),
            .reset_position_ids = v.reset_position_ids,
            .reset_attention_mask = v.reset_attention_mask,
            .eod_mask_loss = v.eod_mask_loss,
            .num_workers = v.num_workers,
            .tokenizer_type = choose(v.tokenizer_type.value_or("GPT2BPETokenizer"), kTokenizers),
            .vocab_file = v.vocab_file.value_or(""),
            .merge_file = v.merge_file.value_or(""),
            .tokenizer_model = v.tokenizer_model.value_or(""),
            .vocab_size = v.vocab_size.value_or(0)};
}

Resolved::Checkpoint checkpoint_of(const Values& v) {
    return {.save = v.save.value_or(""),
            .load = v.load.value_or(""),
            .save_interval = v.save_interval.value_or(0),
            .finetune = v.finetune,
            .load_optim = !v.no_load_optim,
            .load_rng = !v.no_load_rng,
            .save_optim = !v.no_save_optim,
            .exit_on_missing_checkpoint = v.exit_on_missing_checkpoint,
            .step = v.ckpt_step,
            .fall_back = !v.no_load_fallback,
            .save_retain = v.save_retain,
            .save_retain_interval = v.save_retain_interval.value_or(0),
            .save_on_exit = !v.no_save_on_exit,
            .verify_save = !v.no_verify_save,
            .exit_on_save_failure = v.exit_on_save_failure,
            .async_save = v.async_save,
            .save_buffer_bytes = v.save_buffer_mb.value_or(0) << 20,
            .save_stripe_count = v.save_stripe_count,
            .save_stripe_bytes = v.save_stripe_size ? stripe_bytes(*v.save_stripe_size).value_or(0) : 0};
}

Resolved::Exit exit_of(const Values& v) {
    Resolved::Exit exit;
    exit.duration_minutes = v.exit_duration_in_mins.value_or(0);
    if (v.exit_signal_handler)
        exit.signals =
            v.exit_signal ? std::vector{*v.exit_signal} : std::vector<std::string>{"SIGUSR1", "SIGTERM"};
    return exit;
}

} // namespace

ParamsDtype params_dtype_of(const Values& values) {
    return choose(values.params_dtype, kDtypes);
}

Resolved::Model model_of(const Values& v) {
    return {.num_layers = *v.num_layers,
            .hidden_size = *v.hidden_size,
            .ffn_hidden_size = *v.ffn_hidden_size,
            .num_attention_heads = *v.num_attention_heads,
            .kv_channels = *v.kv_channels,
            .seq_length = *v.seq_length,
            .max_position_embeddings = *v.max_position_embeddings,
            .make_vocab_size_divisible_by = v.make_vocab_size_divisible_by,
            .init_method_std = v.init_method_std,
            .hidden_dropout = v.hidden_dropout,
            .attention_dropout = v.attention_dropout,
            .params_dtype = params_dtype_of(v),
            .num_query_groups = v.num_query_groups.value_or(*v.num_attention_heads),
            .position_embedding = choose(v.position_embedding_type, kPositionEmbeddings),
            .rotary_base = v.rotary_base.value_or(0),
            .rotary_percent = v.rotary_percent.value_or(0),
            .rope_scaling_factor = v.rope_scaling_factor.value_or(0),
            .normalization = choose(v.normalization, kNormalizations),
            .norm_epsilon = v.norm_epsilon,
            .activation = v.swiglu ? MlpActivation::swiglu : MlpActivation::gelu,
            .output_weights =
                v.untie_embeddings_and_output_weights ? OutputWeights::untied : OutputWeights::tied,
            .biases = biases_of(v)};
}

Resolved::Machine machine_of(const Values& v) {
    return {.device = choose(*v.device, kDevices),
            .deterministic = !v.no_deterministic,
            .threads_per_rank = v.threads_per_rank,
            .distributed_timeout = std::chrono::milliseconds(
                std::max<std::int64_t>(1, std::llround(v.distributed_timeout_minutes * 60'000)))};
}

Resolved resolve(const Parsed& parsed, const Environment& environment) {
    TRIREME_ASSERT(environment.ranks >= 1 && environment.ranks_on_node >= 1, "a run has at least one rank");
    Checker check(parsed, environment);
    check_required(check);
    check_data(check);
    check_model(check);
    check_shape(check);
    check_precision(check);
    check_layout(check);
    check_split(check);
    check_overlap(check);
    check_recompute(check);
    check_batch(check);
    check_length(check);
    check_learning_rate(check);
    check_weight_decay(check);
    check_run(check);
    throw_problems(check.problems());

    const Values& v = check.values;
    Resolved resolved;
    resolved.command = parsed.command;
    const AskedSplit split = read_split(v);
    resolved.layout = {.ranks = environment.ranks,
                       .tensor_parallel = v.tensor_model_parallel_size,
                       .pipeline_parallel = v.pipeline_model_parallel_size,
                       .data_parallel = environment.ranks /
                                        (v.tensor_model_parallel_size * v.pipeline_model_parallel_size),
                       .schedule = choose(v.pipeline_schedule, kSchedules),
                       .model_chunks = split.chunks,
                       .layer_split = split.layers,
                       .split = split.split,
                       .sequence_parallel = v.sequence_parallel,
                       .distributed_optimizer = v.use_distributed_optimizer,
                       .overlap_grad_reduce = v.overlap_grad_reduce,
                       .overlap_param_gather = v.overlap_param_gather,
                       .ddp_bucket_size = v.ddp_bucket_size};
    resolved.model = model_of(v);
    resolved.recompute = recompute_of(v);
    for (const std::string& module : v.recompute_modules)
        resolved.recompute_modules.push_back(choose(module, kModules));
    resolved.recompute_num_layers = v.recompute_num_layers.value_or(0);
    resolved.batch = {.micro_batch_size = *v.micro_batch_size,
                      .global_batch_size = *v.global_batch_size,
                      .num_microbatches =
                          *v.global_batch_size / (*v.micro_batch_size * resolved.layout.data_parallel),
                      .schedule = topology::BatchSchedule::constant(*v.global_batch_size)};
    resolved.training.seed = static_cast<std::uint64_t>(v.seed);
    if (parsed.command == Command::pretrain || parsed.command == Command::plan)
        if (const auto growing = read_batch_schedule(v).schedule)
            resolved.batch.schedule = *growing;
    if (parsed.command == Command::pretrain) {
        resolved.training.train_iters = *v.train_iters;
        resolved.training.train_samples = resolved.batch.schedule.samples_of(*v.train_iters);
        resolved.training.check_replicas = v.check_replicas.value_or(0);
        resolved.training.exit_interval = v.exit_interval.value_or(0);
        resolved.exit = exit_of(v);
        resolved.training.check_for_nan = !v.no_check_for_nan_in_loss_and_grad;
        resolved.training.rerun_nan = v.rerun_nan;
        resolved.optimizer = optimizer_of(v);
    }
    if (parsed.command == Command::plan && v.train_iters) {
        resolved.training.train_iters = *v.train_iters;
        resolved.training.train_samples = resolved.batch.schedule.samples_of(*v.train_iters);
    }
    resolved.data = data_of(v);
    resolved.evaluation = {.eval_interval = v.eval_interval.value_or(0), .eval_iters = v.eval_iters};
    resolved.checkpoint = checkpoint_of(v);
    resolved.machine = machine_of(v);
    resolved.run = {.log_interval = v.log_interval,
                    .timing_log_level = v.timing_log_level,
                    .log_gpu = v.log_gpu,
                    .profiled_steps = v.profile.value_or(0)};
    resolved.plan = {.machine = v.machine.value_or(""),
                     .draw = v.draw.value_or(""),
                     .search = v.search.value_or(0),
                     .search_max_tensor_parallel = v.search_max_tensor_parallel.value_or(0)};
    resolved.generation = {.prompt = v.prompt.value_or(""),
                           .max_new_tokens = v.max_new_tokens,
                           .temperature = v.temperature,
                           .top_k = v.top_k};
    resolved.values = v;
    resolved.sources = check.sources;
    resolved.notes = parsed.notes;
    if (v.sequence_parallel && v.tensor_model_parallel_size == 1)
        resolved.notes.push_back("--sequence-parallel changes nothing at TP 1");
    for (const std::string_view name :
         {"account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split",
          "pipeline-model-parallel-layout", "decoder-first-pipeline-num-layers",
          "decoder-last-pipeline-num-layers"})
        if (v.pipeline_model_parallel_size == 1 && check.given(name))
            resolved.notes.push_back(concat("--", name, " changes nothing at PP 1"));
    if (v.add_qkv_bias && !v.disable_bias_linear)
        resolved.notes.push_back(
            concat("--add-qkv-bias (", check.sources.of("add-qkv-bias"),
                   "): already so, all linear layers have biases without --disable-bias-linear"));
    if (v.use_distributed_optimizer && resolved.layout.data_parallel == 1)
        resolved.notes.push_back("--use-distributed-optimizer changes nothing at DP 1");
    if (v.overlap_grad_reduce && resolved.layout.data_parallel == 1)
        resolved.notes.push_back("--overlap-grad-reduce changes nothing at DP 1");
    // What cuDNN could do at all: bf16.
    if (resolved.machine.device == Device::cuda && resolved.model.params_dtype == ParamsDtype::bf16 &&
        resolved.command != Command::generate &&
        (v.reset_attention_mask || (v.attention_dropout > 0 && resolved.command != Command::evaluate)))
        resolved.notes.push_back(concat(
            v.reset_attention_mask ? "--reset-attention-mask" : "--attention-dropout above 0",
            ": attention on GPUs is trireme's own kernel, slower than the one of cuDNN, which cannot do it"));
    return resolved;
}

std::vector<std::string> listing(const Resolved& resolved) {
    constexpr std::size_t kNameColumns = 48; // Megatron-LM's
    std::vector<std::string> lines;
    for (const Row& row : table()) {
        if (std::holds_alternative<std::monostate>(row.field) || !row.commands->has(resolved.command))
            continue;
        const std::vector<std::string> texts = texts_of(row, resolved.values);
        const std::string absent = row.arity == Arity::flag ? "false" : "none";
        const std::string source = resolved.sources.of(row.name);
        const std::size_t dots = row.name.size() < kNameColumns ? kNameColumns - row.name.size() : 1;
        lines.push_back(concat("  ", row.name, " ", std::string(dots, '.'), " ",
                               texts.empty() ? absent : join(texts, " "),
                               source == "default" ? "" : concat(" (", source, ")")));
    }
    std::ranges::sort(lines);
    return lines;
}

} // namespace trireme::options
