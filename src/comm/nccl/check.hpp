// NCCL's status codes as Errors, and an owner of its communicators. Private to comm/nccl.
#pragma once

#include <nccl.h>
#include <source_location>
#include <string>
#include <utility>

#include "trireme/base/error.hpp"

namespace trireme::comm {

// Throws Error (communication) unless `status` is ncclSuccess: what was tried, in which group, NCCL's words
// and its last detail, what to try.
void check_nccl(ncclResult_t status, const char* tried, const char* group, ncclComm_t comm = nullptr,
                std::source_location where = std::source_location::current());

// A communicator of NCCL. Its end waits for nobody: after a failure the others may be gone.
class NcclComm {
  public:
    NcclComm() = default;
    explicit NcclComm(ncclComm_t comm) : comm_(comm) {}
    NcclComm(NcclComm&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)) {}
    NcclComm& operator=(NcclComm&& other) noexcept {
        std::swap(comm_, other.comm_);
        return *this;
    }
    NcclComm(const NcclComm&) = delete;
    NcclComm& operator=(const NcclComm&) = delete;
    ~NcclComm();
    void abort(); // ends what is enqueued without waiting for peers

    ncclComm_t get() const { return comm_; }

  private:
    ncclComm_t comm_ = nullptr;
};

} // namespace trireme::comm
