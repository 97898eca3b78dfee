// A sum of the same part of what several ranks hold, once the parts of the others have been copied here.
// Private to backend/cuda and comm/nccl.
#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>

namespace trireme::backend {

// to[i] = x_0[i] + x_1[i] + ... in this order, over `others` + 1 ranks, fp32. `own` is x_rank; the others
// stand in `received` in their order, `stride` elements apart. `to` may be `own`. Throws Error (device).
void ordered_sum(const float* own, int rank, const float* received, std::int64_t stride, int others,
                 float* to, std::int64_t elements, cudaStream_t stream);

} // namespace trireme::backend
