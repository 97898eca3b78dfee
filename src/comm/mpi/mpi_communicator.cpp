// Collectives and messages of tensors over MPI.
#include "comm/mpi/mpi_communicator.hpp"

#include <algorithm>

#include "comm/reduce.hpp"
#include "trireme/comm/phase.hpp"

namespace trireme::comm {

namespace {

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
                                 std::shared_ptr<MpiProgress> progress, const MpiLimits& limits)
    : Communicator(std::move(name), comm.world_ranks(), comm.rank()), comm_(std::move(comm)),
      allocator_(allocator), limits_(limits), lasting_name_(lasting_name(this->name())),
      progress_(std::move(progress)), contributions_(static_cast<std::size_t>(size())), slots_(kSlots) {
    TRIREME_ASSERT(size() > 1, "the ", lasting_name_, " has one rank, which needs no MPI");
    if (limits_.scratch_bytes == 0)
        limits_.scratch_bytes = scratch_bytes(size());
    TRIREME_ASSERT(limits_.scratch_bytes >= 8 * size() && limits_.message_bytes >= 8,
                   "too little scratch memory");
    scratch_ = static_cast<std::byte*>(allocator_.allocate(limits_.scratch_bytes));
    queue_.emplace(CollectiveQueue::Place{comm_.get(), rank(), size(), lasting_name_},
                   std::span(scratch_, static_cast<std::size_t>(limits_.scratch_bytes)),
                   limits_.message_bytes, *progress_);
}

MpiCommunicator::~MpiCommunicator() {
    allocator_.release(scratch_, limits_.scratch_bytes);
}

void MpiCommunicator::do_all_reduce(Tensor x, ReduceOp op) {
    const WaitScope waiting("all-reduce", lasting_name_);
    if (size() == 2 || x.bytes() * size() <= limits_.direct_bytes)
        all_reduce_direct(x, op);
    else
        queue_->finish(queue_->all_reduce(x, op));
}

void MpiCommunicator::all_reduce_direct(const Tensor& x, ReduceOp op) {
    queue_->finish_all(); // the scratch memory is theirs
    const std::int64_t width = size_bytes(x.type());
    const std::int64_t piece = limits_.scratch_bytes / size() / width; // elements
    for (std::int64_t first = 0; first < x.elements(); first += piece) {
        const std::int64_t count = std::min(piece, x.elements() - first);
        check_mpi(MPI_Allgather(element(x, first), static_cast<int>(count), mpi_type(x.type()), scratch_,
                                static_cast<int>(count), mpi_type(x.type()), comm_.get()),
                  "all-reduce", lasting_name_);
        for (int r = 0; r < size(); ++r)
            contributions_[static_cast<std::size_t>(r)] = scratch_ + r * count * width;
        reduce_in_rank_order(op, x.type(), contributions_, element(x, first), count);
    }
}

void MpiCommunicator::do_reduce_scatter(const Tensor& from, Tensor to) {
    const WaitScope waiting("reduce-scatter", lasting_name_);
    queue_->finish(queue_->reduce_scatter(from, to));
}

void MpiCommunicator::do_all_gather(const Tensor& from, Tensor to) {
    const WaitScope waiting("all-gather", lasting_name_);
    if (to.bytes() > limits_.message_bytes)
        return queue_->finish(queue_->all_gather(from, to));
    const std::int64_t count = from.elements();
    const MPI_Datatype type = mpi_type(to.type());
    const bool in_place = from.data() == element(to, rank() * count);
    check_mpi(MPI_Allgather(in_place ? MPI_IN_PLACE : from.data(), static_cast<int>(count), type, to.data(),
                            static_cast<int>(count), type, comm_.get()),
              "all-gather", lasting_name_);
}

Request MpiCommunicator::do_start_all_reduce(Tensor x, ReduceOp op) {
    return {.number = queue_->all_reduce(x, op)};
}

Request MpiCommunicator::do_start_reduce_scatter(const Tensor& from, Tensor to) {
    return {.number = queue_->reduce_scatter(from, to)};
}

Request MpiCommunicator::do_start_all_gather(const Tensor& from, Tensor to) {
    return {.number = queue_->all_gather(from, to)};
}

void MpiCommunicator::do_progress() {
    progress_->advance();
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
    const Request request{.slot = next_slot_};
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
    if (request.number >= 0) {
        const WaitScope waiting("collective in flight", lasting_name_);
        return queue_->finish(request.number);
    }
    TRIREME_ASSERT(request.slot < kSlots && slots_[static_cast<std::size_t>(request.slot)].taken,
                   "wait for transfer ", request.slot, " of the ", name(), ", which is not in flight");
    Slot& slot = slots_[static_cast<std::size_t>(request.slot)];
    const WaitScope waiting(slot.what, lasting_name_, slot.peer);
    slot.taken = false;
    progress_->wait({slot.requests, static_cast<std::size_t>(slot.messages)}, slot.what, lasting_name_);
}

} // namespace trireme::comm
