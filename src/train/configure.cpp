// Field by field, and nothing else: rules and defaults belong to the options layer.
#include "configure.hpp"

namespace trireme::train {
namespace {

model::Recompute recompute(const options::Resolved& options) {
    using Mode = model::Recompute::Mode;
    switch (options.recompute) {
    case options::Recompute::none:
        return {Mode::none, 0};
    case options::Recompute::selective:
        return {Mode::selective, 0};
    case options::Recompute::full_uniform:
        return {Mode::uniform, options.recompute_num_layers};
    case options::Recompute::full_block:
        return {Mode::block, options.recompute_num_layers};
    }
    TRIREME_ASSERT(false, "an unknown recompute mode");
    return {};
}

topology::ScheduleKind schedule(const options::Resolved::Layout& layout) {
    if (layout.model_chunks > 1)
        return topology::ScheduleKind::interleaved;
    switch (layout.schedule) {
    case options::PipelineSchedule::one_forward_one_backward:
        return topology::ScheduleKind::one_f_one_b;
    case options::PipelineSchedule::gpipe:
        return topology::ScheduleKind::gpipe;
    case options::PipelineSchedule::zb_h1:
        return topology::ScheduleKind::zb_h1;
    }
    TRIREME_ASSERT(false, "an unknown schedule");
    return {};
}

DType weight_type(options::ParamsDtype type) {
    switch (type) {
    case options::ParamsDtype::fp32:
        return DType::f32;
    case options::ParamsDtype::fp64:
        return DType::f64;
    case options::ParamsDtype::bf16:
        return DType::bf16;
    case options::ParamsDtype::fp16:
        return DType::f16;
    }
    TRIREME_ASSERT(false, "an unknown type of parameters");
    return {};
}

catalogue::Positions positions(options::PositionEmbedding embedding) {
    switch (embedding) {
    case options::PositionEmbedding::learned_absolute:
        return catalogue::Positions::learned;
    case options::PositionEmbedding::rope:
        return catalogue::Positions::rotary;
    case options::PositionEmbedding::none:
        return catalogue::Positions::none;
    }
    TRIREME_ASSERT(false, "an unknown position embedding");
    return {};
}

catalogue::Biases biases(options::LinearBiases of) {
    switch (of) {
    case options::LinearBiases::all:
        return catalogue::Biases::all;
    case options::LinearBiases::query_key_value:
        return catalogue::Biases::query_key_value;
    case options::LinearBiases::none:
        return catalogue::Biases::none;
    }
    TRIREME_ASSERT(false, "unknown biases");
    return {};
}

// What tells today's models from GPT-2.
void fill_shape(catalogue::ModelConfig& config, const options::Resolved::Model& model) {
    config.positions = positions(model.position_embedding);
    if (config.positions == catalogue::Positions::rotary) {
        config.rotary.head_dim = model.kv_channels;
        config.rotary.percent = model.rotary_percent;
        config.rotary.base = static_cast<double>(model.rotary_base);
        if (model.rope_scaling_factor > 0)
            config.rotary.scaling = catalogue::RotaryScaling{.factor = model.rope_scaling_factor};
    }
    config.normalisation = model.normalization == options::Normalization::rms_norm
                               ? catalogue::Normalisation::rms_norm
                               : catalogue::Normalisation::layer_norm;
    config.norm_epsilon = model.norm_epsilon;
    config.activation = model.activation == options::MlpActivation::swiglu ? catalogue::Activation::swiglu
                                                                           : catalogue::Activation::gelu;
    config.output_layer = model.output_weights == options::OutputWeights::untied
                              ? catalogue::OutputLayer::own
                              : catalogue::OutputLayer::tied;
    config.biases = biases(model.biases);
}

optimizer::DecayStyle decay_style(options::LrDecayStyle style) {
    switch (style) {
    case options::LrDecayStyle::constant:
        return optimizer::DecayStyle::constant;
    case options::LrDecayStyle::linear:
        return optimizer::DecayStyle::linear;
    case options::LrDecayStyle::cosine:
        return optimizer::DecayStyle::cosine;
    case options::LrDecayStyle::inverse_square_root:
        return optimizer::DecayStyle::inverse_square_root;
    case options::LrDecayStyle::wsd:
        return optimizer::DecayStyle::warmup_stable_decay;
    }
    TRIREME_ASSERT(false, "an unknown decay style");
    return {};
}

optimizer::AnnealStyle anneal_style(options::WsdDecayStyle style) {
    switch (style) {
    case options::WsdDecayStyle::exponential:
        return optimizer::AnnealStyle::exponential;
    case options::WsdDecayStyle::linear:
        return optimizer::AnnealStyle::linear;
    case options::WsdDecayStyle::cosine:
        return optimizer::AnnealStyle::cosine;
    case options::WsdDecayStyle::minus_sqrt:
        return optimizer::AnnealStyle::minus_square_root;
    }
    TRIREME_ASSERT(false, "an unknown style of the last decay");
    return {};
}

optimizer::IncreaseStyle increase_style(options::WeightDecayStyle style) {
    switch (style) {
    case options::WeightDecayStyle::constant:
        return optimizer::IncreaseStyle::constant;
    case options::WeightDecayStyle::linear:
        return optimizer::IncreaseStyle::linear;
    case options::WeightDecayStyle::cosine:
        return optimizer::IncreaseStyle::cosine;
    }
    TRIREME_ASSERT(false, "an unknown style of weight decay");
    return {};
}

optimizer::Overlap overlap(const options::Resolved::Layout& layout) {
    if (layout.overlap_param_gather)
        return optimizer::Overlap::reduction_and_gather;
    return layout.overlap_grad_reduce ? optimizer::Overlap::reduction : optimizer::Overlap::none;
}

} // namespace

std::unique_ptr<data::Tokenizer> make_tokenizer(const options::Resolved& options) {
    switch (options.data.tokenizer_type) {
    case options::TokenizerType::gpt2_bpe:
        return data::load_gpt2_bpe(options.data.vocab_file, options.data.merge_file);
    case options::TokenizerType::hf_file:
        return data::load_hf_tokenizer(options.data.tokenizer_model);
    case options::TokenizerType::null:
        return data::make_null_tokenizer(options.data.vocab_size);
    }
    TRIREME_ASSERT(false, "an unknown tokenizer type");
    return nullptr;
}

data::DatasetOptions dataset_options(const options::Resolved& options, std::int64_t vocabulary) {
    data::DatasetOptions result;
    result.data_path = options.data.data_path;
    result.part_paths = options.data.part_paths;
    result.split = options.data.split;
    result.sequence_length = options.model.seq_length;
    result.seed = options.training.seed;
    result.vocab_size = vocabulary;
    return result;
}

std::unique_ptr<backend::Backend> make_backend(const options::Resolved& options,
                                               const comm::Runtime& runtime) {
    backend::BackendSetup setup;
    setup.device =
        options.machine.device == options::Device::cuda ? backend::Device::cuda : backend::Device::cpu;
    setup.threads = static_cast<int>(options.machine.threads_per_rank);
    setup.local_rank = runtime.local_rank();
    return backend::make_backend(setup);
}

EngineSetup engine_setup(const options::Resolved& options, std::int64_t vocabulary, Purpose purpose) {
    EngineSetup setup;
    const options::Resolved::Model& model = options.model;
    setup.model.layers = model.num_layers;
    setup.model.hidden = model.hidden_size;
    setup.model.heads = model.num_attention_heads;
    setup.model.groups = model.num_query_groups;
    setup.model.head_dim = model.kv_channels;
    setup.model.ffn = model.ffn_hidden_size;
    setup.model.vocabulary = vocabulary;
    setup.model.vocabulary_multiple = model.make_vocab_size_divisible_by;
    setup.model.max_positions = model.max_position_embeddings;
    setup.model.sequence = model.seq_length;
    setup.model.init_std = model.init_method_std;
    setup.model.hidden_dropout = model.hidden_dropout;
    setup.model.attention_dropout = model.attention_dropout;
    fill_shape(setup.model, model);
    setup.grid.tensor = static_cast<int>(options.layout.tensor_parallel);
    setup.grid.data = static_cast<int>(options.layout.data_parallel);
    setup.grid.pipeline = static_cast<int>(options.layout.pipeline_parallel);
    setup.schedule = schedule(options.layout);
    setup.chunks = static_cast<int>(options.layout.model_chunks);
    setup.type = weight_type(model.params_dtype);
    setup.micro_batch = options.batch.micro_batch_size;
    setup.global_batch = options.batch.global_batch_size;
    for (const std::int64_t size : options.batch.schedule.sizes())
        if (size != setup.global_batch)
            setup.other_batches.push_back(size);
    setup.seed = options.training.seed;
    setup.host_threads = static_cast<int>(options.machine.threads_per_rank);
    setup.recompute = recompute(options);
    if (options.layout.sequence_parallel)
        setup.sequence_parallel = model::SequenceParallel::yes;
    if (options.layout.distributed_optimizer)
        setup.optimizer.sharding = optimizer::Sharding::data_ranks;
    setup.optimizer.overlap = overlap(options.layout);
    setup.bucket_elements = options.layout.ddp_bucket_size;
    setup.optimizer.beta1 = options.optimizer.adam_beta1;
    setup.optimizer.beta2 = options.optimizer.adam_beta2;
    setup.optimizer.epsilon = options.optimizer.adam_eps;
    setup.optimizer.weight_decay = options.optimizer.end_weight_decay;
    setup.optimizer.clip_norm = options.optimizer.clip_grad;
    setup.purpose = purpose;
    return setup;
}

optimizer::RateSchedule rate_schedule(const options::Resolved& options) {
    const options::Resolved::Optimizer& from = options.optimizer;
    optimizer::RateSchedule schedule;
    schedule.learning_rate.maximum = from.lr;
    schedule.learning_rate.minimum = from.min_lr;
    schedule.learning_rate.warmup_start = from.lr_warmup_init;
    schedule.learning_rate.style = decay_style(from.lr_decay_style);
    schedule.learning_rate.warmup_samples = from.lr_warmup_samples;
    schedule.learning_rate.decay_samples = from.lr_decay_samples;
    schedule.learning_rate.anneal_style = anneal_style(from.wsd_decay_style);
    schedule.learning_rate.anneal_samples = from.wsd_decay_samples;
    schedule.weight_decay.start = from.start_weight_decay;
    schedule.weight_decay.end = from.end_weight_decay;
    schedule.weight_decay.style = increase_style(from.weight_decay_style);
    if (from.weight_decay_style != options::WeightDecayStyle::constant)
        schedule.weight_decay.increase_samples = options.training.train_samples;
    return schedule;
}

optimizer::LossScaleSetup loss_scale(const options::Resolved& options) {
    using Kind = optimizer::LossScaleSetup::Kind;
    optimizer::LossScaleSetup setup;
    const options::Resolved::Optimizer& from = options.optimizer;
    if (options.model.params_dtype != options::ParamsDtype::fp16)
        return setup;
    setup.kind = from.fixed_loss_scale > 0 ? Kind::fixed : Kind::dynamic;
    setup.initial = from.fixed_loss_scale > 0 ? from.fixed_loss_scale : from.initial_loss_scale;
    setup.minimum = from.min_loss_scale;
    setup.window = from.loss_scale_window;
    setup.hysteresis = from.loss_scale_hysteresis;
    return setup;
}

} // namespace trireme::train
