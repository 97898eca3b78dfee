// Token and position embeddings, the first thing of the first stage: x = dropout(word[token] + position[t]).
// The word table is cut by rows over tensor ranks (a rank adds zeros for tokens of others, the sum over ranks
// is the embedding); the position table, if there is one, is held whole by each.
#pragma once

#include "module.hpp"
#include "tensor_region.hpp"
#include "trireme/model/parameters.hpp"
#include "trireme/model/stage_setup.hpp"

namespace trireme::model {

// What becomes of the tables' main gradients: the word table's may have been written by the head it is tied
// to.
struct EmbeddingWrite {
    backend::GradWrite word, position;
};

class Embedding {
  public:
    explicit Embedding(const StageSetup& setup);
    void plan(memory::Plan& plan);
    void bind(const memory::Arena& arena, const Parameters& parameters, const Machinery& machinery);

    // tokens [T, B] i32, output [Ts, B, C].
    void forward(const Tensor& tokens, const BatchMarks& batch, Mode mode, Tensor output) const;
    // grad [Ts, B, C] is overwritten. Writes or adds to the main gradients of both tables.
    void weight_gradient(const Tensor& tokens, const BatchMarks& batch, EmbeddingWrite write,
                         Tensor grad) const;

  private:
    backend::Dropout dropout(std::int64_t first_sample, Mode mode) const;
    Tensor positions_outside(const BatchMarks& batch) const; // [Ts, B] i32

    StageSetup setup_;
    Dimensions d_;
    Machinery machinery_;
    TensorRegion region_;
    memory::Item gathered_item_; // [T, B, C], with sequence parallelism
    Tensor gathered_;
    Tensor word_, position_, grad_word_, grad_position_;
};

} // namespace trireme::model
