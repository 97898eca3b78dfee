// MPI's status codes as Errors, and owners of its handles. Private to comm/mpi and storage.
#pragma once

#include <mpi.h>
#include <source_location>
#include <string>
#include <utility>

#include "trireme/comm/host_group.hpp"
#include "trireme/tensor/dtype.hpp"

namespace trireme::comm {

// Throws Error (communication) unless `status` is MPI_SUCCESS: what was tried, in which group, MPI's words,
// rank and host.
void check_mpi(int status, const char* tried, const char* group,
               std::source_location where = std::source_location::current());

MPI_Datatype mpi_type(DType type);

bool mpi_is_running(); // initialised and not yet finalised

// From now on the process ends without MPI_Finalize: something that would be closed there cannot be. HDF5
// closes its files in MPI_Finalize, together with ranks that may be gone.
void give_up_finalising();
bool may_finalise();

// A communicator of MPI, freed with its owner. Its errors are returned, not fatal.
class MpiComm {
  public:
    MpiComm() = default;
    explicit MpiComm(MPI_Comm comm);
    MpiComm(MpiComm&& other) noexcept : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}
    MpiComm& operator=(MpiComm&& other) noexcept {
        std::swap(comm_, other.comm_);
        return *this;
    }
    MpiComm(const MpiComm&) = delete;
    MpiComm& operator=(const MpiComm&) = delete;
    ~MpiComm();

    MPI_Comm get() const { return comm_; }
    int rank() const;
    int size() const;
    std::vector<int> world_ranks() const; // of its members

  private:
    MPI_Comm comm_ = MPI_COMM_NULL;
};

// Collective over `parent`. split: ranks that give the same colour (>= 0) form a group, in the order of
// `parent`.
MpiComm duplicate(MPI_Comm parent, const char* group);
MpiComm split(MPI_Comm parent, int colour, const char* group);

// The MPI communicator behind a host group, or MPI_COMM_NULL for a group without MPI. The group keeps it.
MPI_Comm mpi_comm(const HostGroup& group);

} // namespace trireme::comm
