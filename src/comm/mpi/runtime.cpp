// Starts and ends MPI, knows who is where, and decides how a failed program leaves.
#include "trireme/comm/runtime.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <exception>
#include <filesystem>
#include <iostream>
#include <thread>
#include <unistd.h>

#include "comm/mpi/runtime_impl.hpp"
#include "trireme/base/command.hpp"

namespace trireme::comm {

namespace {

// ompio, Open MPI 4's default MPI-IO, loses data on a full disk without an error. Spinning ranks on fewer
// cores than ranks cost ten times the run time. What the user set stays.
void set_environment() {
    setenv("OMPI_MCA_io", "^ompio", 0);
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
}

std::optional<std::string> variable(const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

// An Open MPI that can speak Slurm's PMI-1 or PMI-2 has plugins for it beside its library.
bool has_slurm_pmi() {
    Dl_info where{};
    if (dladdr(reinterpret_cast<void*>(&MPI_Init_thread), &where) == 0 || where.dli_fname == nullptr)
        return false;
    std::error_code missing;
    const std::filesystem::path library = std::filesystem::canonical(where.dli_fname, missing);
    const std::filesystem::path folder = library.parent_path();
    for (const std::filesystem::path& place :
         {folder / "openmpi", folder / "openmpi3", folder / "openmpi" / "lib" / "openmpi3",
          folder.parent_path() / "openmpi3"})
        for (const char* plugin : {"mca_pmix_s1.so", "mca_pmix_s2.so"})
            if (std::filesystem::exists(place / plugin, missing))
                return true;
    return false;
}

MpiLibrary own_library() {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    check_mpi(MPI_Get_library_version(text, &length), "version of the library",
              "world group"); // before MPI_Init, too
    const std::string version(text, static_cast<std::size_t>(std::max(0, length)));
    return {version.substr(0, version.find_first_of(",\n\t")), has_slurm_pmi()};
}

std::string ask_slurm() {
    return kinds_of_pmi(output_of({"sh", "-c", "srun --mpi=list 2>&1"}, 5).value_or(""));
}

std::string own_host() {
    char name[256] = {};
    return gethostname(name, sizeof name - 1) == 0 ? name : "?";
}

int start_mpi(int& argc, char**& argv) {
    set_environment();
    int provided = MPI_THREAD_SINGLE;
    check_mpi(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided), "start of MPI", "world group");
    check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "set-up of error handling",
              "world group");
    check_mpi(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "set-up of error handling",
              "group of one");
    if (provided < MPI_THREAD_MULTIPLE)
        throw Error(ErrorCategory::communication,
                    "this MPI library was built without support for several threads",
                    {concat("MPI_THREAD_MULTIPLE was asked for, level ", provided, " given"),
                     "try: an MPI built with thread support"});
    return provided;
}

} // namespace

Runtime::Runtime(int& argc, char**& argv) {
    const Launch launch = read_launch(variable);
    const MpiLibrary library = own_library();
    // Asking takes a while, and one process prints.
    const AskSlurm offers = [&] { return launch.rank.value_or(0) == 0 ? ask_slurm() : ""; };
    if (const std::optional<Error> error = check_before_start(launch, library, offers))
        throw *error;
    start_mpi(argc, argv);
    impl_ = std::make_unique<Impl>(launch.starter, own_host());
    if (const std::optional<Error> error = check_after_start(launch, library, ranks(), offers))
        throw *error;
    impl_->say_differences(launch);
}

Runtime::Impl::Impl(std::string starter, std::string own_host)
    : started_by(std::move(starter)), host(std::move(own_host)), exceptions(std::uncaught_exceptions()),
      world("world group", duplicate(MPI_COMM_WORLD, "world group")), hosts(world.all_gather(host)) {
    MPI_Comm of_node = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &of_node),
              "creation", "node group");
    const MpiComm node(of_node);
    local_rank = node.rank();
    ranks_on_node = node.size();
    double first = local_rank == 0 ? 1 : 0;
    world.all_reduce({&first, 1}, ReduceOp::sum);
    nodes = static_cast<int>(first);
}

// The numbers of MPI count; others are said once, as they make logs hard to read.
void Runtime::Impl::say_differences(const Launch& launch) {
    const std::vector<std::string> all =
        world.all_gather(differences(launch, world.rank(), local_rank, nodes));
    for (std::size_t r = 0; r < all.size() && world.rank() == 0; ++r)
        if (!all[r].empty()) {
            std::cerr << "trireme: warning: MPI and Slurm number the ranks differently: " << all[r]
                      << " (MPI's rank " << r << "); MPI's numbers count\n";
            break;
        }
}

// While an Error of this rank alone flies past, the others do not come to MPI_Finalize: leaving without it
// lets the launcher end them.
Runtime::~Runtime() {
    if (!impl_)
        return;
    const bool in_order = std::uncaught_exceptions() <= impl_->exceptions;
    impl_.reset();
    if (in_order && may_finalise())
        MPI_Finalize();
}

HostGroup& Runtime::world() {
    return impl_->world;
}
int Runtime::rank() const {
    return impl_->world.rank();
}
int Runtime::ranks() const {
    return impl_->world.size();
}
const std::string& Runtime::host() const {
    return impl_->host;
}
int Runtime::local_rank() const {
    return impl_->local_rank;
}
int Runtime::ranks_on_node() const {
    return impl_->ranks_on_node;
}
const std::vector<std::string>& Runtime::hosts() const {
    return impl_->hosts;
}
std::unique_ptr<HostGroup> Runtime::part(int number) {
    TRIREME_ASSERT(number >= 0, "part ", number, " of the world");
    return std::make_unique<MpiHostGroup>("part of the world",
                                          split(impl_->world.comm(), number, "part of the world"));
}
std::string Runtime::started_by() const {
    return impl_->started_by;
}

bool Runtime::error_is_common(const Error& error) const {
    return error.agreement().ranks == ranks() || (ranks() == 1);
}

int Runtime::report(const Error& error) {
    using std::chrono::milliseconds;
    const Agreement& agreement = error.agreement();
    const bool agreed = agreement.ranks > 1;
    if (agreed && agreement.speaker != rank()) {
        if (error_is_common(error))
            return error.exit_code();
        std::this_thread::sleep_for(milliseconds(3000)); // the speaker ends this rank
        abort(error.exit_code());
    }
    // Ranks that met the same trouble without agreeing come here together: the lowest prints first and ends
    // the others before their turn.
    if (!error_is_common(error) && !agreed)
        std::this_thread::sleep_for(milliseconds(250) * std::min(rank(), 10));
    std::cout << std::flush;
    std::cerr << error.message() << std::flush;
    if (error_is_common(error))
        return error.exit_code();
    abort(error.exit_code());
}

void Runtime::abort(int exit_code) {
    std::cout << std::flush;
    std::cerr << std::flush;
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::_Exit(exit_code);
}

} // namespace trireme::comm
