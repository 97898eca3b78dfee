// MPI's status codes as Errors, and owners of its handles.
#include "comm/mpi/check.hpp"

#include <atomic>
#include <unistd.h>

namespace trireme::comm {

void check_mpi(int status, const char* tried, const char* group, std::source_location where) {
    if (status == MPI_SUCCESS)
        return;
    char words[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    if (MPI_Error_string(status, words, &length) != MPI_SUCCESS)
        length = 0;
    char host[256] = {};
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '?';
    int rank = -1;
    if (mpi_is_running())
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    throw Error(ErrorCategory::communication, concat("MPI could not do the ", tried, " in the ", group),
                {concat("MPI says: ", length > 0 ? words : "unknown error", " (", status, ")"),
                 concat("on rank ", rank, " (", host, "), at ", where.file_name(), ":", where.line()),
                 "try: the network and the other ranks' messages on those nodes; trireme preflight"},
                where);
}

MPI_Datatype mpi_type(DType type) {
    switch (type) {
    case DType::f32:
        return MPI_FLOAT;
    case DType::f64:
        return MPI_DOUBLE;
    case DType::bf16:
    case DType::f16:
        return MPI_UINT16_T; // only moved; sums are ours
    case DType::i32:
        return MPI_INT32_T;
    case DType::i64:
        return MPI_INT64_T;
    case DType::u8:
        return MPI_UINT8_T;
    case DType::i16:
        return MPI_INT16_T;
    }
    return MPI_DATATYPE_NULL;
}

bool mpi_is_running() {
    int initialised = 0, finalised = 0;
    return MPI_Initialized(&initialised) == MPI_SUCCESS && MPI_Finalized(&finalised) == MPI_SUCCESS &&
           initialised != 0 && finalised == 0;
}

namespace {

std::atomic<bool> gave_up{false};

} // namespace

void give_up_finalising() {
    gave_up = true;
}

bool may_finalise() {
    return !gave_up && mpi_is_running();
}

MpiComm::MpiComm(MPI_Comm comm) : comm_(comm) {
    check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "set-up of error handling", "new group");
}

MpiComm::~MpiComm() {
    if (comm_ != MPI_COMM_NULL && mpi_is_running())
        MPI_Comm_free(&comm_);
}

int MpiComm::rank() const {
    int value = 0;
    check_mpi(MPI_Comm_rank(comm_, &value), "look-up of the rank", "group");
    return value;
}

int MpiComm::size() const {
    int value = 0;
    check_mpi(MPI_Comm_size(comm_, &value), "look-up of the size", "group");
    return value;
}

std::vector<int> MpiComm::world_ranks() const {
    MPI_Group mine = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
    check_mpi(MPI_Comm_group(comm_, &mine), "look-up of members", "group");
    check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &world), "look-up of members", "world");
    std::vector<int> own(static_cast<std::size_t>(size()));
    for (std::size_t i = 0; i < own.size(); ++i)
        own[i] = static_cast<int>(i);
    std::vector<int> in_world(own.size());
    check_mpi(
        MPI_Group_translate_ranks(mine, static_cast<int>(own.size()), own.data(), world, in_world.data()),
        "translation of ranks", "group");
    MPI_Group_free(&mine);
    MPI_Group_free(&world);
    return in_world;
}

MpiComm duplicate(MPI_Comm parent, const char* group) {
    MPI_Comm made = MPI_COMM_NULL;
    check_mpi(MPI_Comm_dup(parent, &made), "creation", group);
    return MpiComm(made);
}

MpiComm split(MPI_Comm parent, int colour, const char* group) {
    MPI_Comm made = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split(parent, colour < 0 ? MPI_UNDEFINED : colour, 0, &made), "creation", group);
    return made == MPI_COMM_NULL ? MpiComm() : MpiComm(made);
}

} // namespace trireme::comm
