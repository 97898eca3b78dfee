// Status codes of CUDA, cuBLASLt and cuDNN as Errors of category device: what was tried, the library's words,
// which device, and what to do. Every call of these libraries goes through here.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <source_location>
#include <string>

#include "trireme/base/error.hpp"

namespace trireme::backend {

void check(cudaError_t status, const char* tried,
           std::source_location where = std::source_location::current());
void check(cublasStatus_t status, const char* tried,
           std::source_location where = std::source_location::current());
void check(cudnnStatus_t status, const char* tried,
           std::source_location where = std::source_location::current());

// After a kernel launch: a wrong configuration shows here; a fault inside the kernel at the next
// synchronisation.
inline void check_launch(const char* kernel, std::source_location where = std::source_location::current()) {
    check(cudaGetLastError(), kernel, where);
}

} // namespace trireme::backend
