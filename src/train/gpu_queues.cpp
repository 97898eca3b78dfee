// Which pipelines few hardware queues would hang.
#include "gpu_queues.hpp"

#include <cstdlib>

#include "trireme/base/error.hpp"

namespace trireme::train {

// An interleaved pipeline whose micro-batches are no multiple of its stages posts receives so far ahead that
// streams of one hardware queue would never get past them; all others come to their end even with one queue
// (tests/unit/topology/one_queue_test). Collectives change nothing: ranks of a tensor or data group issue the
// same work in the same order, so all of them can follow the execution of one.
void require_queues(const options::Resolved& options) {
    constexpr int kNeeded = 16; // six streams by role and four of messages, and some to spare
    const char* const set = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    if (options.machine.device != options::Device::cuda || options.layout.model_chunks == 1 ||
        set == nullptr || std::atoi(set) >= kNeeded)
        return;
    const std::int64_t stages = options.layout.pipeline_parallel;
    for (const std::int64_t batch : options.batch.schedule.sizes()) {
        const std::int64_t micro_batches =
            batch / (options.batch.micro_batch_size * options.layout.data_parallel);
        if (micro_batches % stages != 0)
            throw Error(
                ErrorCategory::usage,
                concat("CUDA_DEVICE_MAX_CONNECTIONS=", set, " does not go with an interleaved pipeline of ",
                       stages, " stages and ", micro_batches, " micro-batches"),
                {"its messages would wait for one another in the GPU's hardware queues for ever",
                 concat("try: unset CUDA_DEVICE_MAX_CONNECTIONS (32 is then used), or a --global-batch-size "
                        "that makes a multiple of ",
                        stages, " micro-batches")});
    }
}

} // namespace trireme::train
