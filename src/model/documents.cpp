// One walk along each row of a micro-batch.
#include "trireme/model/documents.hpp"

#include <span>

namespace trireme::model {

DocumentMarks::DocumentMarks(const DocumentSetup& setup, std::int64_t sequence, std::int64_t micro_batch,
                             DType statistics)
    : setup_(setup), sequence_(sequence), micro_batch_(micro_batch), statistics_(statistics) {
    const auto tokens = static_cast<std::size_t>(sequence * micro_batch);
    if (setup.masks_attention)
        documents_.resize(tokens);
    if (setup.restarts_positions)
        positions_.resize(tokens);
    if (setup.masks_loss && statistics == DType::f64)
        double_mask_.resize(tokens);
    else if (setup.masks_loss)
        single_mask_.resize(tokens);
}

void DocumentMarks::mark(MicroBatch& batch) {
    if (!setup_.any())
        return;
    const Shape shape{sequence_, micro_batch_};
    TRIREME_ASSERT(batch.tokens.shape() == shape, "tokens ", batch.tokens.shape().text(),
                   " for documents of ", shape.text());
    const std::span<const std::int32_t> tokens = batch.tokens.values<std::int32_t>();
    std::int64_t ends = 0;
    for (std::int64_t b = 0; b < micro_batch_; ++b) {
        std::int64_t begin = 0; // of the document
        for (std::int64_t t = 0; t < sequence_; ++t) {
            const auto at = static_cast<std::size_t>(t * micro_batch_ + b);
            const bool end = tokens[at] == setup_.end;
            if (setup_.masks_attention)
                documents_[at] = static_cast<std::int32_t>(begin);
            if (setup_.restarts_positions)
                positions_[at] = static_cast<std::int32_t>(t - begin);
            if (!double_mask_.empty())
                double_mask_[at] = end ? 0 : 1;
            if (!single_mask_.empty())
                single_mask_[at] = end ? 0 : 1;
            if (!end)
                continue;
            ++ends;
            begin = t + 1;
        }
    }
    ends_seen_ += ends;
    if (setup_.masks_attention)
        batch.documents = Tensor(std::span(documents_), shape);
    if (setup_.restarts_positions)
        batch.positions = Tensor(std::span(positions_), shape);
    if (!setup_.masks_loss)
        return;
    batch.masked_tokens = ends;
    const Shape rows{sequence_ * micro_batch_};
    batch.loss_mask = statistics_ == DType::f64 ? Tensor(std::span(double_mask_), rows)
                                                : Tensor(std::span(single_mask_), rows);
}

} // namespace trireme::model
