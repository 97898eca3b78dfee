// The libraries that this process has loaded, as they name themselves, whatever it was built with.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trireme {

// {"MPI", "Open MPI v4.1.4"} ...; without those that are not there. Needs neither MPI_Init nor a GPU.
std::vector<std::pair<std::string, std::string>> loaded_versions();

// "OpenBLAS 0.3.21 (Haswell)": which kernels its processor got; "" for another BLAS.
std::string blas_kernels();

} // namespace trireme
