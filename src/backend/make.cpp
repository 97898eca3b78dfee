// Where a backend is made: the one file of this layer that asks whether the build has CUDA.
#include "trireme/backend/backend.hpp"

#ifdef TRIREME_CUDA
#include "backend/cuda/make_cuda.hpp"
#endif

namespace trireme::backend {

bool has_cuda() {
#ifdef TRIREME_CUDA
    return true;
#else
    return false;
#endif
}

std::unique_ptr<Backend> make_backend(const BackendSetup& setup) {
    if (setup.device == Device::cpu)
        return make_cpu_backend(setup.threads);
#ifdef TRIREME_CUDA
    return make_cuda_backend(setup.local_rank, setup.sums);
#else
    throw Error(ErrorCategory::usage, "this build of trireme has no CUDA",
                {"try: --device cpu, or a build with CUDA=1"});
#endif
}

} // namespace trireme::backend
