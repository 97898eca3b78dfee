// Embeddings in operations of the backend.
#include "embedding.hpp"

namespace trireme::model {

Embedding::Embedding(const StageSetup& setup) : setup_(setup), d_(dimensions(setup)) {}

void Embedding::bind(const Parameters& parameters, const Machinery& machinery) {
    machinery_ = machinery;
    const Shape word{d_.V, d_.C}, position{setup_.config.max_positions, d_.C};
    word_ = parameters.weight("embedding.word.weight").reshaped(word);
    grad_word_ = parameters.gradient("embedding.word.weight").reshaped(word);
    position_ = parameters.weight("embedding.position.weight").reshaped(position);
    grad_position_ = parameters.gradient("embedding.position.weight").reshaped(position);
}

backend::Dropout Embedding::dropout(std::int64_t first_sample, Mode mode) const {
    backend::Dropout dropout;
    dropout.probability = mode == Mode::train ? setup_.config.hidden_dropout : 0;
    dropout.seed = setup_.seed;
    dropout.site = backend::DropoutSite::embedding;
    dropout.first_sample = first_sample;
    return dropout;
}

void Embedding::forward(const Tensor& tokens, std::int64_t first_sample, Mode mode, Tensor output) const {
    backend::Operations& ops = machinery_.backend->compute();
    ops.embedding_forward(tokens, word_, d_.first_row, output);
    machinery_.tensor->all_reduce(output, comm::ReduceOp::sum);
    ops.position_forward(position_, 0, output);
    if (const backend::Dropout settings = dropout(first_sample, mode); settings.probability > 0)
        ops.bias_dropout_residual(output, {}, {}, settings, output);
}

void Embedding::weight_gradient(const Tensor& tokens, std::int64_t first_sample, Tensor grad) const {
    backend::Operations& ops = machinery_.backend->compute();
    if (const backend::Dropout settings = dropout(first_sample, Mode::train); settings.probability > 0)
        ops.dropout_gradient(grad, settings, grad);
    ops.position_weight_gradient(grad, 0, grad_position_);
    ops.embedding_weight_gradient(tokens, grad, d_.first_row, grad_word_);
}

} // namespace trireme::model
