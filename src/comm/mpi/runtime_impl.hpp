// What a Runtime holds. Private to comm/mpi.
#pragma once

#include "comm/launch.hpp"
#include "comm/mpi/mpi_host_group.hpp"
#include "trireme/comm/runtime.hpp"

namespace trireme::comm {

struct Runtime::Impl {
    Impl(std::string starter, std::string own_host);
    void say_differences(const Launch& launch);

    std::string started_by;
    std::string host;
    int exceptions; // in flight when the runtime was made
    MpiHostGroup world;
    std::vector<std::string> hosts;
    int local_rank = 0;
    int ranks_on_node = 1;
    int nodes = 1;
};

} // namespace trireme::comm
