// The process as one of many: starts and ends MPI, knows rank, host and node layout, makes groups, and
// watches for ranks that fall behind. One Runtime a process, made in main() before anything else that
// communicates.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trireme/backend/backend.hpp"
#include "trireme/comm/communicator.hpp"
#include "trireme/comm/host_group.hpp"
#include "trireme/topology/grid.hpp"

namespace trireme::comm {

class Runtime {
  public:
    // Initialises MPI (thread-multiple), after setting the environment it needs where the user has not:
    // OMPI_MCA_io=^ompio, OMPI_MCA_mpi_yield_when_idle=1. Throws Error (communication) if that fails.
    Runtime(int& argc, char**& argv);
    Runtime(const Runtime&) = delete;
    Runtime& operator=(const Runtime&) = delete;
    ~Runtime(); // finalises

    HostGroup& world();
    int rank() const;
    int ranks() const;
    const std::string& host() const;
    int local_rank() const; // among the ranks of this node
    int ranks_on_node() const;
    const std::vector<std::string>& hosts() const; // of every world rank

    // The ranks that give the same number (>= 0) as a group of their own, in their order: several runs side
    // by side. Collective over the world.
    std::unique_ptr<HostGroup> part(int number);

    std::string started_by() const; // "mpirun", "srun", "alone": for messages

    // Whether all ranks of the world throw this Error together (comm::agree()).
    bool error_is_common(const Error& error) const;
    // For main(): prints the error once, whatever the number of ranks that met it. Returns the exit code if
    // all ranks leave in order with it; otherwise ends all ranks. Call it while the Runtime lives, on every
    // rank that caught an Error.
    int report(const Error& error);

    // Ends all ranks at once with this exit code; for errors that the others cannot learn of.
    [[noreturn]] void abort(int exit_code);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
    friend class Watchdog;
};

// All groups of a layout (topology/grid.hpp shows the order).
struct ProcessGroups {
    // Over all ranks. Collective over the world.
    ProcessGroups(Runtime& runtime, const topology::Grid& grid, backend::Backend& backend);
    // Over these ranks, the runtime's world or a part of it: the grid counts ranks within it. Collective over
    // the ranks, which must outlive the groups.
    ProcessGroups(HostGroup& ranks, const topology::Grid& grid, backend::Backend& backend);
    // The groups of a rank that works alone, whatever other ranks there are: `world` is a group of one
    // (make_self_host_group()) and must outlive the groups.
    static ProcessGroups alone(HostGroup& world);

    // Groups to be filled by the caller (comm/dry).
    static ProcessGroups without_members(const topology::Grid& grid, const topology::Coordinates& at);

    // What the communicators of the rank at these coordinates take from the backend: once, when they are
    // made.
    static std::int64_t scratch_bytes(const topology::Grid& grid, const topology::Coordinates& at,
                                      backend::Device device);
    static constexpr std::int64_t kProbeBytes = 256; // on GPUs each group keeps what first messages carry
    // On GPUs a data group of so few ranks, if it registers buffers, keeps parts of others until it adds
    // them.
    static constexpr int kMostCopyingRanks = 8;
    static constexpr std::int64_t kCopyBytes = (64 << 20) + 4096;

    void abandon(); // Communicator::abandon() of each

    topology::Grid grid;
    topology::Coordinates at;                // of this rank
    HostGroup* world = nullptr;              // all ranks of the layout; owned by the runtime or the caller
    std::unique_ptr<HostGroup> stage;        // tensor x data ranks of this pipeline stage
    std::unique_ptr<Communicator> tensor;    // on the tensor stream
    std::unique_ptr<Communicator> key_value; // tensor ranks that hold the same key/value group
    std::unique_ptr<Communicator> data;      // on the gradient-reduction stream
    std::unique_ptr<Communicator> pipeline;  // on the pipeline stream
    std::unique_ptr<Communicator> embedding; // first and last stage; defined only on their ranks
    std::unique_ptr<Communicator> model;     // tensor x pipeline ranks of one data replica (gradient norm)

  private:
    ProcessGroups() = default;
};

} // namespace trireme::comm
