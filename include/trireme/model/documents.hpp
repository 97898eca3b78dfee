// Documents within samples, found by the token that ends one: which document a token belongs to, its position
// and whether its loss counts. Example, with 9 as the end and all three wanted:
//
//     tokens      5 6 9 7 9 9 8
//     documents   0 0 0 3 3 5 6    where the document begins; an end belongs to the document that it ends
//     positions   0 1 2 0 1 0 0
//     loss mask   1 1 0 1 0 0 1
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/model/piece.hpp"
#include "trireme/model/stage_setup.hpp"

namespace trireme::model {

class DocumentMarks {
  public:
    // loss_mask is of type `statistics`: fp32 or fp64.
    DocumentMarks(const DocumentSetup& setup, std::int64_t sequence, std::int64_t micro_batch,
                  DType statistics);

    // Fills documents, positions, loss_mask and masked_tokens of a micro-batch from its tokens, as far as
    // they are wanted. What the tensors view stays valid until the next call.
    void mark(MicroBatch& batch);

    std::int64_t ends_seen() const { return ends_seen_; } // by all calls

  private:
    DocumentSetup setup_;
    std::int64_t sequence_, micro_batch_;
    DType statistics_;
    std::int64_t ends_seen_ = 0;
    std::vector<std::int32_t> documents_, positions_;
    std::vector<float> single_mask_;
    std::vector<double> double_mask_;
};

} // namespace trireme::model
