// Embeddings in operations of the backend.
#include "embedding.hpp"

namespace trireme::model {

Embedding::Embedding(const StageSetup& setup) : setup_(setup), d_(dimensions(setup)), region_(setup) {}

void Embedding::plan(memory::Plan& plan) {
    region_.plan(plan);
    if (region_.cuts_sequence())
        gathered_item_ = plan.share(memory::Category::activations, "gradient of mlp down",
                                    Shape{d_.T, d_.B, d_.C}, setup_.type);
}

void Embedding::bind(const memory::Arena& arena, const Parameters& parameters, const Machinery& machinery) {
    machinery_ = machinery;
    region_.bind(arena, machinery);
    gathered_ = arena.tensor(gathered_item_);
    const Shape word{d_.V, d_.C}, position{setup_.config.max_positions, d_.C};
    word_ = parameters.weight("embedding.word.weight").reshaped(word);
    grad_word_ = parameters.gradient("embedding.word.weight").reshaped(word);
    if (setup_.config.positions != catalogue::Positions::learned)
        return;
    position_ = parameters.weight("embedding.position.weight").reshaped(position);
    grad_position_ = parameters.gradient("embedding.position.weight").reshaped(position);
}

backend::Dropout Embedding::dropout(std::int64_t first_sample, Mode mode) const {
    backend::Dropout dropout;
    dropout.probability = mode == Mode::train ? setup_.config.hidden_dropout : 0;
    dropout.seed = setup_.seed;
    dropout.site = backend::DropoutSite::embedding;
    dropout.first_sample = first_sample;
    dropout.first_position = d_.first_position;
    return dropout;
}

Tensor Embedding::positions_outside(const BatchMarks& batch) const {
    return batch.positions.rows(d_.first_position, d_.Ts);
}

void Embedding::forward(const Tensor& tokens, const BatchMarks& batch, Mode mode, Tensor output) const {
    backend::Operations& ops = machinery_.backend->compute();
    const Shape whole{d_.T, d_.B, d_.C};
    const Tensor partial = region_.leave_from(output).reshaped(whole);
    ops.embedding_forward(tokens, word_, d_.first_row, partial);
    region_.leave(partial, output);
    if (position_.defined() && batch.positions.defined())
        ops.position_lookup_forward(position_, positions_outside(batch), output);
    else if (position_.defined())
        ops.position_forward(position_, d_.first_position, output);
    if (const backend::Dropout settings = dropout(batch.first_sample, mode); settings.probability > 0)
        ops.bias_dropout_residual(output, {}, {}, settings, output);
}

void Embedding::weight_gradient(const Tensor& tokens, const BatchMarks& batch, EmbeddingWrite write,
                                Tensor grad) const {
    backend::Operations& ops = machinery_.backend->compute();
    // Few rows are hit: the others must be zero.
    if (write.word == backend::GradWrite::overwrite)
        ops.fill(grad_word_, 0);
    if (write.position == backend::GradWrite::overwrite && position_.defined())
        ops.fill(grad_position_, 0);
    if (const backend::Dropout settings = dropout(batch.first_sample, Mode::train); settings.probability > 0)
        ops.dropout_gradient(grad, settings, grad);
    if (position_.defined() && batch.positions.defined())
        ops.position_lookup_weight_gradient(grad, positions_outside(batch), grad_position_);
    else if (position_.defined())
        ops.position_weight_gradient(grad, d_.first_position, grad_position_);
    Tensor whole = grad;
    if (region_.cuts_sequence()) { // no layer needs its gradient of "mlp down" any more
        whole = gathered_;
        ops.copy(grad, region_.outside(whole));
        region_.complete(whole);
    }
    ops.embedding_weight_gradient(tokens, whole, d_.first_row, grad_word_);
}

} // namespace trireme::model
