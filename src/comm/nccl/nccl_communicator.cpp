// Collectives and messages of tensors over NCCL.
#include "comm/nccl/nccl_communicator.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "backend/cuda/check.hpp"
#include "comm/nccl/make_nccl.hpp"
#include "trireme/comm/phase.hpp"

namespace trireme::comm {
namespace {

using backend::check;
using backend::StreamRole;

ncclDataType_t nccl_type(DType type) {
    switch (type) {
    case DType::f32:
        return ncclFloat32;
    case DType::f64:
        return ncclFloat64;
    case DType::bf16:
        return ncclBfloat16;
    case DType::f16:
        return ncclFloat16;
    case DType::i32:
        return ncclInt32;
    case DType::i64:
        return ncclInt64;
    case DType::u8:
        return ncclUint8;
    case DType::i16: // what optimizers keep is not sent
        break;
    }
    TRIREME_ASSERT(false, "NCCL does not move ", name(type));
    return ncclUint8;
}

std::size_t count(const Tensor& x) {
    return static_cast<std::size_t>(x.elements());
}

// A receive that was posted ahead spins on its multiprocessors while this rank computes. One and sixteen were
// slower (docs/performance.md).
constexpr int kMessageBlocks = 4;

ncclUniqueId new_id(const char* group) {
    ncclUniqueId id;
    check_nccl(ncclGetUniqueId(&id), "creation of an id", group);
    return id;
}

// blocks: how many of the GPU's multiprocessors a transfer may take; 0: NCCL's own choice.
NcclComm connect(const ncclUniqueId& id, int ranks, int rank, const char* group, int blocks = 0) {
    const WaitScope waiting("connection by NCCL", group);
    ncclComm_t comm = nullptr;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (blocks > 0)
        config.maxCTAs = blocks;
    check_nccl(ncclCommInitRankConfig(&comm, ranks, id, rank, &config), "connection", group);
    return NcclComm(comm);
}

} // namespace

// Messages that cross on communicators of several streams hang where NCCL takes its buffers through cuMem,
// and do not where it does not (NCCL 2.28.3 on two H200s, tests/gpu/nccl_test). Kernels of several
// communicators that run at once must start in the order of the calls on every GPU, or each may wait for what
// the other has not room to start. Not with a pipeline: a message would then also wait for the start of a
// receive that was posted ahead behind another one, which starts only when that one's message has come
// (MessagesCrossWithoutDeadlock hung by it). NCCL reads its settings once. A user's own choice stands.
void choose_nccl_settings(int pipeline_ranks) {
    ::setenv("NCCL_CUMEM_ENABLE", "0", 0);
    if (pipeline_ranks == 1)
        ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
}

NcclCommunicator::NcclCommunicator(std::string name, MpiComm comm, backend::CudaBackend& backend,
                                   StreamRole role, Use use)
    : Communicator(std::move(name), comm.world_ranks(), comm.rank()), mpi_(std::move(comm)),
      backend_(backend), role_(role), lasting_name_(lasting_name(this->name())) {
    TRIREME_ASSERT(size() > 1, "the ", lasting_name_, " has one rank, which needs no NCCL");
    ncclUniqueId id{};
    if (rank() == 0)
        id = new_id(lasting_name_);
    check_mpi(MPI_Bcast(&id, static_cast<int>(sizeof id), MPI_BYTE, 0, mpi_.get()), "broadcast of an id",
              lasting_name_);
    comm_ = connect(id, size(), rank(), lasting_name_);
    probe_ = static_cast<std::byte*>(backend_.allocate(kProbeBytes));
    {
        const WaitScope waiting("first all-reduce", lasting_name_);
        collective("first all-reduce", [&] {
            return ncclAllReduce(probe_, probe_, 1, ncclFloat32, ncclSum, comm_.get(),
                                 backend_.stream(role_));
        });
        backend_.synchronize(role_);
    }
    if (use == Use::messages)
        connect_lanes();
}

NcclCommunicator::~NcclCommunicator() {
    for (const Slot& slot : slots_)
        cudaEventDestroy(slot.done);
    for (Lane& lane : lanes_) {
        lane.comm = NcclComm();
        if (lane.stream != nullptr)
            cudaStreamDestroy(lane.stream);
    }
    comm_ = NcclComm();
    backend_.release(probe_, kProbeBytes); // which waits for all that runs
}

void NcclCommunicator::do_register_buffers(std::span<const Tensor> buffers) {
    TRIREME_ASSERT(!copies_, "buffers of the ", lasting_name_, " are registered twice");
    if (size() > PeerCopies::kMostRanks)
        return;
    const WaitScope waiting("registration of buffers", lasting_name_);
    copies_ =
        std::make_unique<PeerCopies>(mpi_.get(), lasting_name_, backend_, backend_.stream(role_), buffers);
}

// Nobody frees what another rank still has open.
void NcclCommunicator::do_release_buffers() {
    if (!copies_)
        return;
    backend_.synchronize(role_);
    copies_->close();
    {
        const WaitScope waiting("release of buffers", lasting_name_);
        check_mpi(MPI_Barrier(mpi_.get()), "release of buffers", lasting_name_);
    }
    copies_.reset();
}

std::string NcclCommunicator::transport() const {
    if (copies())
        return "copies between the GPUs of a node, which take no multiprocessor";
    return copies_ ? concat("NCCL (no copies between GPUs: ", copies_->why_not(), ")") : "NCCL";
}

void NcclCommunicator::do_abandon() {
    if (copies_)
        copies_->abandon();
    comm_.abort();
    for (Lane& lane : lanes_)
        lane.comm.abort();
}

// Every rank makes the ids of the two lanes that it sends on. All walk over the lanes in one order, 0 -> 1
// first, and stop at those that are theirs, so nobody waits in a circle. A first message goes over each at
// once: NCCL connects at the first call, and there the host waits for the peer's, which two ranks that both
// receive first would never see.
void NcclCommunicator::connect_lanes() {
    const std::array<ncclUniqueId, 2> mine{new_id(lasting_name_), new_id(lasting_name_)};
    std::vector<std::array<ncclUniqueId, 2>> all(static_cast<std::size_t>(size()));
    check_mpi(MPI_Allgather(mine.data(), static_cast<int>(sizeof mine), MPI_BYTE, all.data(),
                            static_cast<int>(sizeof mine), MPI_BYTE, mpi_.get()),
              "exchange of ids", lasting_name_);
    for (std::size_t direction = 0; direction < 2; ++direction)
        for (int sender = 0; sender < size(); ++sender) {
            const int receiver = direction == 0 ? (sender + 1) % size() : (sender + size() - 1) % size();
            if (rank() != sender && rank() != receiver)
                continue;
            Lane& lane = lanes_[2 * direction + (rank() == sender ? 0 : 1)];
            lane.comm = connect(all[static_cast<std::size_t>(sender)][direction], 2, rank() == sender ? 0 : 1,
                                lasting_name_, kMessageBlocks);
            check(cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking), "stream of messages");
            const WaitScope waiting("first message", lasting_name_);
            check_nccl(rank() == sender
                           ? ncclSend(probe_, kProbeBytes, ncclUint8, 1, lane.comm.get(), lane.stream)
                           : ncclRecv(probe_, kProbeBytes, ncclUint8, 0, lane.comm.get(), lane.stream),
                       "first message", lasting_name_, lane.comm.get());
            check(cudaStreamSynchronize(lane.stream), "first message");
        }
}

void NcclCommunicator::check_peers(const char* what) {
    ncclResult_t state = ncclSuccess;
    check_nccl(ncclCommGetAsyncError(comm_.get(), &state), what, lasting_name_, comm_.get());
    check_nccl(state, what, lasting_name_, comm_.get());
}

template <class Call>
void NcclCommunicator::collective(const char* what, const Call& call) {
    check_peers(what);
    const TransferScope transfer(what, lasting_name_);
    const bool beside = role_ != StreamRole::compute;
    if (beside)
        backend_.wait(role_, backend_.record(StreamRole::compute));
    check_nccl(call(), what, lasting_name_, comm_.get());
    if (beside)
        backend_.wait(StreamRole::compute, backend_.record(role_));
}

ncclResult_t NcclCommunicator::enqueue_all_reduce(const Tensor& x, ReduceOp op) {
    if (copies() && op == ReduceOp::sum && copies_->serves_all_reduce(x)) {
        copies_->all_reduce(x);
        return ncclSuccess;
    }
    return ncclAllReduce(x.data(), x.data(), count(x), nccl_type(x.type()),
                         op == ReduceOp::sum ? ncclSum : ncclMax, comm_.get(), backend_.stream(role_));
}

ncclResult_t NcclCommunicator::enqueue_reduce_scatter(const Tensor& from, const Tensor& to) {
    if (copies() && copies_->serves_reduce_scatter(from, to)) {
        copies_->reduce_scatter(from, to);
        return ncclSuccess;
    }
    return ncclReduceScatter(from.data(), to.data(), count(to), nccl_type(to.type()), ncclSum, comm_.get(),
                             backend_.stream(role_));
}

ncclResult_t NcclCommunicator::enqueue_all_gather(const Tensor& from, const Tensor& to) {
    if (copies() && copies_->serves_all_gather(to)) {
        copies_->all_gather(from, to);
        return ncclSuccess;
    }
    return ncclAllGather(from.data(), to.data(), count(from), nccl_type(from.type()), comm_.get(),
                         backend_.stream(role_));
}

void NcclCommunicator::do_all_reduce(Tensor x, ReduceOp op) {
    collective("all-reduce", [&] { return enqueue_all_reduce(x, op); });
}

void NcclCommunicator::do_reduce_scatter(const Tensor& from, Tensor to) {
    collective("reduce-scatter", [&] { return enqueue_reduce_scatter(from, to); });
}

void NcclCommunicator::do_all_gather(const Tensor& from, Tensor to) {
    collective("all-gather", [&] { return enqueue_all_gather(from, to); });
}

void NcclCommunicator::do_broadcast(Tensor x, int root) {
    collective("broadcast", [&] {
        return ncclBroadcast(x.data(), x.data(), count(x), nccl_type(x.type()), root, comm_.get(),
                             backend_.stream(role_));
    });
}

NcclCommunicator::Lane& NcclCommunicator::lane(int channel, bool sends) {
    Lane& found = lanes_[2 * (channel % 2) + (sends ? 0 : 1)];
    TRIREME_ASSERT(found.stream != nullptr, "messages in the ", lasting_name_,
                   ", which was made for collectives");
    return found;
}

std::int32_t NcclCommunicator::take_slot() {
    auto slot = std::ranges::find(slots_, false, &Slot::taken);
    if (slot == slots_.end()) {
        slot = slots_.emplace(slots_.end());
        check(cudaEventCreateWithFlags(&slot->done, cudaEventDisableTiming), "event of a transfer");
    }
    slot->taken = true;
    return static_cast<std::int32_t>(slot - slots_.begin());
}

template <class Call>
Request NcclCommunicator::start(const char* what, cudaStream_t stream, ncclComm_t comm, const Call& call) {
    check_peers(what);
    const Request request{.slot = take_slot()};
    cudaEvent_t const done = slots_[static_cast<std::size_t>(request.slot)].done;
    // The event of the slot first marks the point in the compute stream, then the end of the transfer.
    check(cudaEventRecord(done, backend_.stream(StreamRole::compute)), "event of a transfer");
    check(cudaStreamWaitEvent(stream, done, 0), "wait for an event");
    check_nccl(call(), what, lasting_name_, comm);
    check(cudaEventRecord(done, stream), "event of a transfer");
    return request;
}

Request NcclCommunicator::do_start_all_reduce(Tensor x, ReduceOp op) {
    return start("all-reduce", backend_.stream(role_), comm_.get(),
                 [&] { return enqueue_all_reduce(x, op); });
}

Request NcclCommunicator::do_start_reduce_scatter(const Tensor& from, Tensor to) {
    return start("reduce-scatter", backend_.stream(role_), comm_.get(),
                 [&] { return enqueue_reduce_scatter(from, to); });
}

Request NcclCommunicator::do_start_all_gather(const Tensor& from, Tensor to) {
    return start("all-gather", backend_.stream(role_), comm_.get(),
                 [&] { return enqueue_all_gather(from, to); });
}

Request NcclCommunicator::do_send(const Tensor& x, int to, int channel) {
    const int forward = (rank() + 1) % size(), backward = (rank() + size() - 1) % size();
    TRIREME_ASSERT(to == (channel % 2 == 0 ? forward : backward), "a message on channel ", channel,
                   " from rank ", rank(), " to rank ", to, " of the ", name(), " is not between neighbours");
    Lane& out = lane(channel, true);
    return start("send", out.stream, out.comm.get(), [&] {
        return ncclSend(x.data(), count(x), nccl_type(x.type()), 1, out.comm.get(), out.stream);
    });
}

Request NcclCommunicator::do_receive(Tensor x, int from, int channel) {
    const int before = (rank() + size() - 1) % size(), after = (rank() + 1) % size();
    TRIREME_ASSERT(from == (channel % 2 == 0 ? before : after), "a message on channel ", channel,
                   " from rank ", from, " to rank ", rank(), " of the ", name(),
                   " is not between neighbours");
    Lane& in = lane(channel, false);
    return start("receive", in.stream, in.comm.get(), [&] {
        return ncclRecv(x.data(), count(x), nccl_type(x.type()), 0, in.comm.get(), in.stream);
    });
}

void NcclCommunicator::do_wait(Request& request) {
    TRIREME_ASSERT(request.slot < static_cast<int>(slots_.size()) &&
                       slots_[static_cast<std::size_t>(request.slot)].taken,
                   "wait for transfer ", request.slot, " of the ", name(), ", which is not in flight");
    Slot& slot = slots_[static_cast<std::size_t>(request.slot)];
    const TransferScope transfer("wait for a message", lasting_name_);
    check(cudaStreamWaitEvent(backend_.stream(StreamRole::compute), slot.done, 0), "wait for a message");
    slot.taken = false;
}

std::unique_ptr<Communicator> make_nccl_communicator(const std::string& name, MpiComm comm,
                                                     backend::Backend& backend, StreamRole role) {
    auto* const cuda = dynamic_cast<backend::CudaBackend*>(&backend);
    TRIREME_ASSERT(cuda != nullptr, "NCCL for the ", name, " on ", backend.description());
    return std::make_unique<NcclCommunicator>(
        name, std::move(comm), *cuda, role, role == StreamRole::pipeline ? Use::messages : Use::collectives);
}

} // namespace trireme::comm
