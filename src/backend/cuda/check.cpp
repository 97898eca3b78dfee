// What a failed call of CUDA, cuBLASLt or cuDNN tells the user.
#include "backend/cuda/check.hpp"

#include <unistd.h>

namespace trireme::backend {
namespace {

[[noreturn]] void fail(const char* library, const char* tried, const std::string& words, int status,
                       const char* remedy, const std::source_location& where) {
    char host[256] = {};
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '?';
    int device = -1;
    if (cudaGetDevice(&device) != cudaSuccess)
        device = -1;
    throw Error(ErrorCategory::device, concat(library, " could not do: ", tried),
                {concat(library, " says: ", words, " (", status, ")"),
                 concat("on ", host, ", GPU ", device, ", at ", where.file_name(), ":", where.line()),
                 concat("try: ", remedy)},
                where);
}

const char* remedy_for(cudaError_t status) {
    switch (status) {
    case cudaErrorNoDevice:
        return "a node with a GPU (nvidia-smi shows them; Slurm needs --gpus or --gres), or --device cpu";
    case cudaErrorInsufficientDriver:
        return "a newer NVIDIA driver on this node (nvidia-smi shows its version), or --device cpu";
    case cudaErrorMemoryAllocation:
        return "a smaller --micro-batch-size, --recompute-activations, or more GPUs";
    case cudaErrorNoKernelImageForDevice:
        return "a build for this GPU: make ARCH=native on it, or ARCH=<its compute capability without the "
               "dot>";
    case cudaErrorDevicesUnavailable:
        return "a GPU that no other program holds exclusively (nvidia-smi shows the compute mode)";
    default:
        return "the same step with CUDA_LAUNCH_BLOCKING=1, which names the operation; nvidia-smi for faults";
    }
}

} // namespace

void check(cudaError_t status, const char* tried, std::source_location where) {
    if (status != cudaSuccess) [[unlikely]]
        fail("CUDA", tried, cudaGetErrorString(status), static_cast<int>(status), remedy_for(status), where);
}

void check(cublasStatus_t status, const char* tried, std::source_location where) {
    if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
        fail("cuBLASLt", tried, cublasLtGetStatusString(status), static_cast<int>(status),
             "CUBLASLT_LOG_LEVEL=5, which shows the call", where);
}

void check(cudnnStatus_t status, const char* tried, std::source_location where) {
    if (status != CUDNN_STATUS_SUCCESS) [[unlikely]]
        fail("cuDNN", tried, cudnnGetErrorString(status), static_cast<int>(status),
             "CUDNN_LOGLEVEL_DBG=2, which shows the call", where);
}

} // namespace trireme::backend
