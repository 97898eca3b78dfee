// Collectives and messages of tensors over MPI.
#include "comm/mpi/mpi_communicator.hpp"

#include <algorithm>

#include "comm/reduce.hpp"
#include "trireme/comm/phase.hpp"

namespace trireme::comm {

namespace {

constexpr int kExchangeTag = kMaxChannel + 1; // collectives' own messages; MPI promises tags up to 32767

std::byte* element(const Tensor& x, std::int64_t index) {
    return static_cast<std::byte*>(x.data()) + index * size_bytes(x.type());
}

} // namespace

std::int64_t MpiCommunicator::scratch_bytes(int size) {
    if (size <= 1)
        return 0; // comm/self
    constexpr std::int64_t kLeast = std::int64_t{4} << 20, kPerRank = std::int64_t{64} << 10;
    return std::max(kLeast, size * kPerRank);
}

MpiCommunicator::MpiCommunicator(std::string name, MpiComm comm, memory::Allocator& allocator,
                                 const MpiLimits& limits)
    : Communicator(std::move(name), comm.world_ranks(), comm.rank()), comm_(std::move(comm)),
      allocator_(allocator), limits_(limits), lasting_name_(lasting_name(this->name())),
      exchange_requests_(static_cast<std::size_t>(2 * size())),
      contributions_(static_cast<std::size_t>(size())), slots_(kSlots) {
    TRIREME_ASSERT(size() > 1, "the ", lasting_name_, " has one rank, which needs no MPI");
    if (limits_.scratch_bytes == 0)
        limits_.scratch_bytes = scratch_bytes(size());
    TRIREME_ASSERT(limits_.scratch_bytes >= 8 * size() && limits_.message_bytes >= 8,
                   "too little scratch memory");
    scratch_ = static_cast<std::byte*>(allocator_.allocate(limits_.scratch_bytes));
}

MpiCommunicator::~MpiCommunicator() {
    allocator_.release(scratch_, limits_.scratch_bytes);
}

template <class Outgoing, class Incoming>
void MpiCommunicator::exchange(const char* what, DType type, Outgoing outgoing, Incoming incoming) {
    int pending = 0;
    const MPI_Datatype of_mpi = mpi_type(type);
    for (int step = 1; step < size(); ++step) {
        const int from = (rank() + size() - step) % size();
        if (const Piece piece = incoming(from); piece.count > 0)
            check_mpi(MPI_Irecv(piece.data, static_cast<int>(piece.count), of_mpi, from, kExchangeTag,
                                comm_.get(), &exchange_requests_[static_cast<std::size_t>(pending++)]),
                      what, lasting_name_);
    }
    for (int step = 1; step < size(); ++step) {
        const int to = (rank() + step) % size();
        if (const Piece piece = outgoing(to); piece.count > 0)
            check_mpi(MPI_Isend(piece.data, static_cast<int>(piece.count), of_mpi, to, kExchangeTag,
                                comm_.get(), &exchange_requests_[static_cast<std::size_t>(pending++)]),
                      what, lasting_name_);
    }
    check_mpi(MPI_Waitall(pending, exchange_requests_.data(), MPI_STATUSES_IGNORE), what, lasting_name_);
}

void MpiCommunicator::do_all_reduce(Tensor x, ReduceOp op) {
    const WaitScope waiting("all-reduce", lasting_name_);
    if (size() == 2 || x.bytes() * size() <= limits_.direct_bytes)
        all_reduce_direct(x, op);
    else
        all_reduce_split(x, op);
}

void MpiCommunicator::all_reduce_direct(const Tensor& x, ReduceOp op) {
    const std::int64_t width = size_bytes(x.type());
    const std::int64_t piece = limits_.scratch_bytes / size() / width; // elements
    for (std::int64_t first = 0; first < x.elements(); first += piece) {
        const std::int64_t count = std::min(piece, x.elements() - first);
        check_mpi(MPI_Allgather(element(x, first), static_cast<int>(count), mpi_type(x.type()), scratch_,
                                static_cast<int>(count), mpi_type(x.type()), comm_.get()),
                  "all-reduce", lasting_name_);
        for (int r = 0; r < size(); ++r)
            contributions_[static_cast<std::size_t>(r)] = scratch_part(r, count * width);
        reduce_in_rank_order(op, x.type(), contributions_, element(x, first), count);
    }
}

// Example: 3 ranks, scratch for 6 elements (parts of 2), x of 10: pieces [0,6) and [6,10). In the second,
// rank 0 adds elements 6-7, rank 1 adds 8-9, rank 2 nothing.
void MpiCommunicator::all_reduce_split(const Tensor& x, ReduceOp op) {
    const std::int64_t width = size_bytes(x.type());
    const std::int64_t part = limits_.scratch_bytes / size() / width; // elements
    for (std::int64_t first = 0; first < x.elements(); first += part * size()) {
        const std::int64_t left = std::min(part * size(), x.elements() - first);
        // A short last piece is shared by all ranks alike.
        const std::int64_t share = std::min(part, (left + size() - 1) / size());
        const auto part_of = [&](int r) -> Piece {
            const std::int64_t begin = std::min(left, r * share);
            return {element(x, first + begin), std::min(share, left - begin)};
        };
        const Piece own = part_of(rank());
        exchange("all-reduce", x.type(), part_of, [&](int r) -> Piece {
            return {scratch_part(r, part * width), own.count};
        });
        for (int r = 0; r < size(); ++r)
            contributions_[static_cast<std::size_t>(r)] =
                r == rank() ? own.data : scratch_part(r, part * width);
        reduce_in_rank_order(op, x.type(), contributions_, own.data, own.count);
        exchange(
            "all-reduce", x.type(), [&](int) { return own; }, part_of);
    }
}

void MpiCommunicator::do_reduce_scatter(const Tensor& from, Tensor to) {
    const WaitScope waiting("reduce-scatter", lasting_name_);
    const std::int64_t width = size_bytes(to.type());
    const std::int64_t part = limits_.scratch_bytes / size() / width; // elements
    for (std::int64_t first = 0; first < to.elements(); first += part) {
        const std::int64_t count = std::min(part, to.elements() - first);
        const auto part_of = [&](int r) -> Piece {
            return {element(from, r * to.elements() + first), count};
        };
        exchange("reduce-scatter", to.type(), part_of, [&](int r) -> Piece {
            return {scratch_part(r, part * width), count};
        });
        for (int r = 0; r < size(); ++r)
            contributions_[static_cast<std::size_t>(r)] =
                r == rank() ? part_of(r).data : scratch_part(r, part * width);
        reduce_in_rank_order(ReduceOp::sum, to.type(), contributions_, element(to, first), count);
    }
}

void MpiCommunicator::do_all_gather(const Tensor& from, Tensor to) {
    const WaitScope waiting("all-gather", lasting_name_);
    const std::int64_t count = from.elements();
    const bool in_place = from.data() == element(to, rank() * count);
    if (to.bytes() <= limits_.message_bytes) {
        const MPI_Datatype type = mpi_type(to.type());
        check_mpi(MPI_Allgather(in_place ? MPI_IN_PLACE : from.data(), static_cast<int>(count), type,
                                to.data(), static_cast<int>(count), type, comm_.get()),
                  "all-gather", lasting_name_);
        return;
    }
    const std::int64_t piece = limits_.message_bytes / size_bytes(to.type()); // elements
    for (std::int64_t first = 0; first < count; first += piece) {
        const std::int64_t length = std::min(piece, count - first);
        exchange(
            "all-gather", to.type(),
            [&](int) -> Piece {
                return {element(from, first), length};
            },
            [&](int r) -> Piece {
                return {element(to, r * count + first), length};
            });
    }
    if (!in_place)
        std::copy_n(element(from, 0), from.bytes(), element(to, rank() * count));
}

void MpiCommunicator::do_broadcast(Tensor x, int root) {
    const WaitScope waiting("broadcast", lasting_name_, world_ranks()[static_cast<std::size_t>(root)]);
    const std::int64_t piece = limits_.message_bytes / size_bytes(x.type()); // elements
    for (std::int64_t first = 0; first < x.elements(); first += piece)
        check_mpi(MPI_Bcast(element(x, first), static_cast<int>(std::min(piece, x.elements() - first)),
                            mpi_type(x.type()), root, comm_.get()),
                  "broadcast", lasting_name_);
}

template <class Start>
Request MpiCommunicator::start(const Tensor& x, int peer, const char* what, Start start_message) {
    const std::int64_t piece = limits_.message_bytes / size_bytes(x.type()); // elements
    TRIREME_ASSERT(x.elements() <= piece * kMessages, x.bytes(), " bytes are too many for one ", what,
                   " (at most ", piece * kMessages * size_bytes(x.type()), ")");
    int tried = 0;
    while (slots_[static_cast<std::size_t>(next_slot_)].taken) {
        TRIREME_ASSERT(++tried < kSlots, "more than ", kSlots, " transfers in flight in the ", name());
        next_slot_ = (next_slot_ + 1) % kSlots;
    }
    const Request request{next_slot_};
    Slot& slot = slots_[static_cast<std::size_t>(next_slot_)];
    slot.taken = true;
    slot.messages = 0;
    slot.peer = world_ranks()[static_cast<std::size_t>(peer)];
    slot.what = what;
    for (std::int64_t first = 0; first < x.elements(); first += piece) {
        const int count = static_cast<int>(std::min(piece, x.elements() - first));
        check_mpi(start_message(element(x, first), count, &slot.requests[slot.messages]), what,
                  lasting_name_);
        ++slot.messages;
    }
    return request;
}

Request MpiCommunicator::do_send(const Tensor& x, int to, int channel) {
    return start(x, to, "send", [&](std::byte* data, int count, MPI_Request* request) {
        return MPI_Isend(data, count, mpi_type(x.type()), to, channel, comm_.get(), request);
    });
}

Request MpiCommunicator::do_receive(Tensor x, int from, int channel) {
    return start(x, from, "receive", [&](std::byte* data, int count, MPI_Request* request) {
        return MPI_Irecv(data, count, mpi_type(x.type()), from, channel, comm_.get(), request);
    });
}

void MpiCommunicator::do_wait(Request& request) {
    TRIREME_ASSERT(request.slot < kSlots && slots_[static_cast<std::size_t>(request.slot)].taken,
                   "wait for transfer ", request.slot, " of the ", name(), ", which is not in flight");
    Slot& slot = slots_[static_cast<std::size_t>(request.slot)];
    const WaitScope waiting(slot.what, lasting_name_, slot.peer);
    slot.taken = false;
    check_mpi(MPI_Waitall(slot.messages, slot.requests, MPI_STATUSES_IGNORE), slot.what, lasting_name_);
}

} // namespace trireme::comm
