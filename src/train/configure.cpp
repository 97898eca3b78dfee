// Field by field, and nothing else: rules and defaults belong to the options layer.
#include "configure.hpp"

#include <algorithm>

#include "trireme/catalogue/catalogue.hpp"
#include "trireme/plan/balance.hpp"
#include "trireme/train/model_config.hpp"

namespace trireme::train {
namespace {

model::Recompute recompute(const options::Resolved& options) {
    using Mode = model::Recompute::Mode;
    switch (options.recompute) {
    case options::Recompute::none:
        return {Mode::none, 0};
    case options::Recompute::selective: {
        const auto has = [&](options::RecomputeModule module) {
            return std::ranges::find(options.recompute_modules, module) != options.recompute_modules.end();
        };
        return {Mode::selective,
                0,
                {.core_attention = has(options::RecomputeModule::core_attention),
                 .norms = has(options::RecomputeModule::norms),
                 .mlp = has(options::RecomputeModule::mlp)}};
    }
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

std::int64_t model_vocabulary(const options::Resolved& options, const data::Tokenizer& tokenizer) {
    const std::int64_t words = tokenizer.vocab_size(), wanted = options.data.vocab_size;
    if (options.data.tokenizer_type == options::TokenizerType::null || wanted == 0)
        return words;
    if (wanted < words)
        throw Error(ErrorCategory::usage,
                    concat("--vocab-size ", wanted, " is less than the ", words, " tokens of the tokenizer"),
                    {concat("--vocab-size ", wanted, " (", options.sources.of("vocab-size"), ")"),
                     concat("try: leave it out, or --vocab-size ", words, " or more")});
    return wanted;
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
    setup.sums = options.machine.deterministic ? backend::SumOrder::fixed : backend::SumOrder::free;
    return backend::make_backend(setup);
}

namespace {

// Generation continues one text: whatever it is made of, it is one document.
model::DocumentSetup document_setup(const options::Resolved& options) {
    model::DocumentSetup documents;
    if (options.command == options::Command::generate)
        return documents;
    documents.masks_attention = options.data.reset_attention_mask;
    documents.restarts_positions = options.data.reset_position_ids;
    documents.masks_loss = options.data.eod_mask_loss;
    return documents;
}

} // namespace

EngineSetup engine_setup(const options::Resolved& options, std::int64_t vocabulary, Purpose purpose) {
    EngineSetup setup;
    setup.model = model_config(options.model, vocabulary);
    setup.grid.tensor = static_cast<int>(options.layout.tensor_parallel);
    setup.grid.data = static_cast<int>(options.layout.data_parallel);
    setup.grid.pipeline = static_cast<int>(options.layout.pipeline_parallel);
    setup.grid.key_value_holders = catalogue::key_value_holders(setup.model, setup.grid.tensor);
    setup.schedule = schedule(options.layout);
    setup.chunks = static_cast<int>(options.layout.model_chunks);
    setup.type = weight_type(options.model.params_dtype);
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
    setup.documents = document_setup(options);
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
    setup.split = options.layout.split;
    if (options.layout.layer_split == options::LayerSplit::balanced)
        setup.split.pieces = plan::balanced_pieces(setup);
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
