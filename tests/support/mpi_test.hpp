// What tests on several MPI ranks share: the one Runtime of the process, made by mpi_main.cpp.
#pragma once

#include "trireme/comm/runtime.hpp"

namespace trireme::test {

comm::Runtime& runtime();

} // namespace trireme::test
