// What the pipeline tells whoever finalises gradients, while a step runs. The optimizer implements it.
#pragma once

namespace trireme::model {

class StepHooks {
  public:
    virtual ~StepHooks() = default;
    // All micro-batches have added to the main gradients of this chunk on this rank: reduction over data
    // ranks may start.
    virtual void gradients_complete(int chunk) = 0;
};

} // namespace trireme::model
