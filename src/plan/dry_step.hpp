// A step that nobody computes: the parts of a rank bound to addresses that nobody follows (backend/dry), run
// as a real step runs them.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/model/documents.hpp"
#include "trireme/plan/declared_rank.hpp"

namespace trireme::plan {

// What the backend of `on` takes beside tensors for the operations of this rank. One micro-batch shows all
// shapes; for Purpose::train also an evaluation's.
std::int64_t dry_scratch_bytes(const RunSetup& setup, const topology::Coordinates& at, const DeviceKind& on);

// Micro-batches of token 0.
class DryBatches final : public pipeline::BatchSource {
  public:
    explicit DryBatches(const RunSetup& setup);
    std::int64_t first_sample(std::int64_t) const override { return 0; }
    model::MicroBatch load(std::int64_t number) override;

  private:
    std::int64_t sequence_, micro_batch_;
    std::vector<std::int32_t> tokens_;
    model::DocumentMarks marks_;
};

} // namespace trireme::plan
