// Makes the backend of one GPU; without CUDA headers, for src/backend/make.cpp.
#pragma once

#include <memory>

#include "trireme/backend/backend.hpp"

namespace trireme::backend {

// The GPU of this rank: number local_rank, or the only one visible. Throws Error (device) if there is none.
std::unique_ptr<Backend> make_cuda_backend(int local_rank, SumOrder sums);

} // namespace trireme::backend
