// Asks each library by the name of its function, so that no header of MPI, HDF5 or CUDA is needed, and a
// library that was not linked is simply not there.
#include "versions.hpp"

#include <cstddef>
#include <dlfcn.h>

#include "trireme/base/error.hpp"

namespace trireme {
namespace {

template <class Function>
Function* loaded(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

std::string mpi() {
    char text[8192] = {}; // MPI_MAX_LIBRARY_VERSION_STRING is at most this in the MPIs there are
    int length = 0;
    const auto ask = loaded<int(char*, int*)>("MPI_Get_library_version");
    if (ask == nullptr || ask(text, &length) != 0)
        return "";
    const std::string version(text);
    return version.substr(0, version.find_first_of(",\n\t"));
}

std::string hdf5() {
    unsigned major = 0, minor = 0, release = 0;
    const auto ask = loaded<int(unsigned*, unsigned*, unsigned*)>("H5get_libversion");
    return ask == nullptr || ask(&major, &minor, &release) < 0 ? "" : concat(major, ".", minor, ".", release);
}

// 13000 -> 13.0
std::string cuda() {
    int version = 0;
    const auto ask = loaded<int(int*)>("cudaRuntimeGetVersion");
    return ask == nullptr || ask(&version) != 0 ? "" : concat(version / 1000, ".", version % 1000 / 10);
}

// 22809 -> 2.28.9
std::string nccl() {
    int version = 0;
    const auto ask = loaded<int(int*)>("ncclGetVersion");
    return ask == nullptr || ask(&version) != 0
               ? ""
               : concat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

// 91900 -> 9.19.0
std::string cudnn() {
    const auto ask = loaded<std::size_t()>("cudnnGetVersion");
    return ask == nullptr ? "" : concat(ask() / 10000, ".", ask() / 100 % 100, ".", ask() % 100);
}

} // namespace

std::vector<std::pair<std::string, std::string>> loaded_versions() {
    std::vector<std::pair<std::string, std::string>> versions;
    for (const auto& [name, version] : std::vector<std::pair<std::string, std::string>>{
             {"MPI", mpi()}, {"HDF5", hdf5()}, {"CUDA", cuda()}, {"NCCL", nccl()}, {"cuDNN", cudnn()}})
        if (!version.empty())
            versions.emplace_back(name, version);
    return versions;
}

std::string blas_kernels() {
    const auto config = loaded<char*()>("openblas_get_config");
    const auto core = loaded<char*()>("openblas_get_corename");
    if (config == nullptr || core == nullptr)
        return "";
    const std::string words(config()); // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
    return concat(words.substr(0, words.find(' ', words.find(' ') + 1)), " (", core(), ")");
}

} // namespace trireme
