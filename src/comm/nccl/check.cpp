// What a failed call of NCCL tells the user.
#include "comm/nccl/check.hpp"

#include <cstdlib>
#include <exception>
#include <unistd.h>

namespace trireme::comm {

void check_nccl(ncclResult_t status, const char* tried, const char* group, ncclComm_t comm,
                std::source_location where) {
    if (status == ncclSuccess || status == ncclInProgress) [[likely]]
        return;
    char host[256] = {};
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '?';
    const char* const detail = ncclGetLastError(comm);
    const char* const interface = std::getenv("NCCL_SOCKET_IFNAME");
    throw Error(ErrorCategory::communication, concat("NCCL could not do the ", tried, " in the ", group),
                {concat("NCCL says: ", ncclGetErrorString(status), " (", static_cast<int>(status), ")",
                        detail != nullptr && *detail != 0 ? ": " : "", detail != nullptr ? detail : ""),
                 concat("on ", host, ", at ", where.file_name(), ":", where.line()),
                 interface != nullptr
                     ? concat("try: a network interface that this node has in NCCL_SOCKET_IFNAME (it is ",
                              interface, "; ip link lists them)")
                     : std::string("try: NCCL_DEBUG=INFO, which names the network and the step that failed")},
                where);
}

void NcclComm::abort() {
    if (comm_ != nullptr)
        ncclCommAbort(comm_);
    comm_ = nullptr;
}

NcclComm::~NcclComm() {
    if (comm_ == nullptr)
        return;
    // Destroy waits for what is enqueued, which may never end when a peer is gone.
    if (std::uncaught_exceptions() > 0)
        ncclCommAbort(comm_);
    else
        ncclCommDestroy(comm_);
}

} // namespace trireme::comm
