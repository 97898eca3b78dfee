// Makes a communicator of GPUs; without CUDA or NCCL headers, for comm/mpi/process_groups.cpp.
#pragma once

#include <memory>
#include <string>

#include "comm/mpi/check.hpp"
#include "trireme/comm/communicator.hpp"

namespace trireme::comm {

// Before the first communicator; the same on all ranks.
void choose_nccl_settings(int pipeline_ranks);

// Collective over `comm`, whose ranks are the group's. The backend must be a CUDA backend and outlive the
// communicator.
std::unique_ptr<Communicator> make_nccl_communicator(const std::string& name, MpiComm comm,
                                                     backend::Backend& backend, backend::StreamRole role);

} // namespace trireme::comm
