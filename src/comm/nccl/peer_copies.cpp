// Opening of the other ranks' memory (CUDA IPC), rounds (stream memory operations) and the collectives.
#include "comm/nccl/peer_copies.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "backend/cuda/check.hpp"
#include "backend/cuda/ordered_sum.hpp"

namespace trireme::comm {
namespace {

using backend::check;

// Where a range of memory lies: in which allocation, and where in it.
struct Place {
    cudaIpcMemHandle_t handle{};
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
};

bool is_set(const char* variable, const char* value) {
    const char* const text = std::getenv(variable);
    return text != nullptr && std::strcmp(text, value) == 0;
}

// Empty if every member's processes share memory.
std::string not_one_node(MPI_Comm comm, const char* group) {
    MPI_Comm node = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node), "look for one node",
              group);
    const MpiComm owned(node);
    int all = 0;
    check_mpi(MPI_Comm_size(comm, &all), "look for one node", group);
    return owned.size() == all ? "" : "its ranks are on several nodes";
}

template <class Function>
bool driver_function(const char* name, unsigned version, Function& function) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    if (cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result) != cudaSuccess ||
        result != cudaDriverEntryPointSuccess)
        return false;
    function = reinterpret_cast<Function>(found);
    return true;
}

} // namespace

PeerCopies::PeerCopies(MPI_Comm comm, const char* group, backend::CudaBackend& backend, cudaStream_t stream,
                       std::span<const Tensor> buffers)
    : comm_(comm), group_(group), backend_(backend), stream_(stream) {
    check_mpi(MPI_Comm_rank(comm_, &rank_), "look-up of a rank", group_);
    check_mpi(MPI_Comm_size(comm_, &size_), "look-up of a size", group_);
    TRIREME_ASSERT(size_ > 1 && size_ <= kMostRanks, "copies between ", size_, " ranks");
    memory_ = static_cast<std::byte*>(backend_.allocate(kCounterBytes + kReceivedBytes));
    operations_.resize(2 * static_cast<std::size_t>(size_ - 1));
    why_not_ = not_one_node(comm_, group_);
    if (why_not_.empty()) {
        for (const char* const variable : {"TRIREME_PEER_COPIES=0", "NCCL_P2P_DISABLE=1"}) {
            const std::string text = variable;
            const std::size_t equals = text.find('=');
            if (is_set(text.substr(0, equals).c_str(), text.c_str() + equals + 1))
                why_not_ = text;
        }
        if (why_not_.empty())
            why_not_ = look_up_driver();
        if (all_agree(why_not_)) {
            why_not_ = open_all(buffers);
            all_agree(why_not_);
        }
    }
    if (!ready())
        close();
}

PeerCopies::~PeerCopies() {
    close();
    backend_.release(memory_, kCounterBytes + kReceivedBytes); // which waits for all that runs
}

void PeerCopies::close() noexcept {
    for (void* const opened : std::exchange(opened_, {}))
        cudaIpcCloseMemHandle(opened);
    cudaGetLastError();
    buffers_.clear();
}

std::string PeerCopies::look_up_driver() {
    if (driver_function("cuStreamBatchMemOp", 11070, driver_.batch) &&
        driver_function("cuMemGetAddressRange", 3020, driver_.range))
        return {};
    cudaGetLastError();
    return "this driver has no stream memory operations";
}

// Collective. Whether no rank has an objection; afterwards all have one if any has.
bool PeerCopies::all_agree(std::string& mine) {
    int objections = mine.empty() ? 0 : 1;
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, &objections, 1, MPI_INT, MPI_SUM, comm_), "agreement on copies",
              group_);
    if (objections > 0 && mine.empty())
        mine = "another rank cannot";
    return objections == 0;
}

// Collective. Returns what failed.
std::string PeerCopies::open_all(std::span<const Tensor> buffers) {
    std::string failure;
    const auto tried = [&](cudaError_t status, const char* what) {
        if (status != cudaSuccess && failure.empty())
            failure = concat(what, ": ", cudaGetErrorString(status));
        return status == cudaSuccess;
    };
    std::vector<std::pair<std::byte*, std::int64_t>> ranges{{memory_, kCounterBytes}};
    for (const Tensor& buffer : buffers)
        ranges.emplace_back(static_cast<std::byte*>(buffer.data()), buffer.bytes());
    std::vector<Place> mine;
    for (const auto& [begin, bytes] : ranges) {
        Place& place = mine.emplace_back();
        place.bytes = bytes;
        CUdeviceptr base = 0;
        std::size_t whole = 0;
        const auto address = reinterpret_cast<CUdeviceptr>(begin);
        if (driver_.range(&base, &whole, address) != CUDA_SUCCESS)
            tried(cudaErrorInvalidValue, "look-up of an allocation");
        else if (tried(cudaIpcGetMemHandle(&place.handle, reinterpret_cast<void*>(base)),
                       "handle of GPU memory"))
            place.offset = static_cast<std::int64_t>(address - base);
    }
    const std::size_t count = mine.size();
    std::vector<Place> all(count * static_cast<std::size_t>(size_));
    const auto bytes = static_cast<int>(count * sizeof(Place));
    check_mpi(MPI_Allgather(mine.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, comm_),
              "exchange of memory handles", group_);
    if (!failure.empty())
        return failure;

    std::map<std::array<char, sizeof(cudaIpcMemHandle_t)>, std::byte*> bases; // of what is open
    std::vector<std::vector<std::byte*>> theirs(count,
                                                std::vector<std::byte*>(static_cast<std::size_t>(size_)));
    for (int peer = 0; peer < size_; ++peer)
        for (std::size_t i = 0; i < count; ++i) {
            const auto at = static_cast<std::size_t>(peer);
            if (peer == rank_) {
                theirs[i][at] = ranges[i].first;
                continue;
            }
            const Place& place = all[at * count + i];
            TRIREME_ASSERT(place.bytes == ranges[i].second, "rank ", peer, " has ", place.bytes,
                           " bytes where this one has ", ranges[i].second);
            std::array<char, sizeof(cudaIpcMemHandle_t)> key{};
            std::memcpy(key.data(), &place.handle, key.size());
            const auto [found, is_new] = bases.emplace(key, nullptr);
            if (is_new) {
                void* opened = nullptr;
                if (!tried(cudaIpcOpenMemHandle(&opened, place.handle, cudaIpcMemLazyEnablePeerAccess),
                           "access to another GPU's memory"))
                    return failure;
                opened_.push_back(opened);
                found->second = static_cast<std::byte*>(opened);
            }
            theirs[i][at] = found->second + place.offset;
        }
    counters_ = theirs.front();
    for (std::size_t i = 1; i < count; ++i)
        buffers_.push_back({ranges[i].first, ranges[i].second, theirs[i]});
    std::ranges::sort(buffers_, {}, &Buffer::mine);
    return {};
}

const PeerCopies::Buffer* PeerCopies::find(const Tensor& x) const {
    const auto* const begin = static_cast<const std::byte*>(x.data());
    const auto after = std::ranges::upper_bound(buffers_, begin, {}, &Buffer::mine);
    if (after == buffers_.begin())
        return nullptr;
    const Buffer& buffer = *(after - 1);
    return begin + x.bytes() <= buffer.mine + buffer.bytes ? &buffer : nullptr;
}

std::byte* PeerCopies::on(int peer, const void* mine, const Buffer& buffer) const {
    return buffer.theirs[static_cast<std::size_t>(peer)] +
           (static_cast<const std::byte*>(mine) - buffer.mine);
}

bool PeerCopies::serves_reduce_scatter(const Tensor& from, const Tensor& to) const {
    return to.type() == DType::f32 && find(from) != nullptr;
}

bool PeerCopies::serves_all_gather(const Tensor& to) const {
    return find(to) != nullptr;
}

bool PeerCopies::serves_all_reduce(const Tensor& x) const {
    return x.type() == DType::f32 && x.elements() % size_ == 0 && find(x) != nullptr;
}

// Everything that stood before a round on any rank's stream is done when what stands behind it begins. A
// write has a memory barrier of its own; counters are compared as a circle, so they may wrap.
void PeerCopies::round() {
    ++rounds_;
    const auto others = static_cast<std::size_t>(size_ - 1);
    for (std::size_t i = 0; i < others; ++i) {
        const std::size_t peer = (static_cast<std::size_t>(rank_) + 1 + i) % (others + 1);
        const auto address = [&](std::size_t of, std::size_t entry) {
            return reinterpret_cast<CUdeviceptr>(counters_[of] + sizeof(std::uint32_t) * entry);
        };
        CUstreamBatchMemOpParams write{}, wait{};
        write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
        write.writeValue.address = address(peer, static_cast<std::size_t>(rank_));
        write.writeValue.value = rounds_;
        write.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
        wait.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
        wait.waitValue.address = address(static_cast<std::size_t>(rank_), peer);
        wait.waitValue.value = rounds_;
        wait.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
        operations_[i] = write;
        operations_[others + i] = wait;
    }
    if (driver_.batch(stream_, static_cast<unsigned>(operations_.size()), operations_.data(), 0) !=
        CUDA_SUCCESS)
        check(cudaErrorUnknown, "a round of ranks that copy");
}

void PeerCopies::copy(void* to, const void* from, std::int64_t bytes) {
    check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, stream_),
          "copy between GPUs");
}

// This rank's part of the sum, chunk by chunk as there is room for parts of the others.
void PeerCopies::sum_part(const Tensor& from, const Tensor& to) {
    const Buffer& buffer = *find(from);
    const auto* const own = static_cast<const float*>(from.data()) + rank_ * to.elements();
    auto* const result = static_cast<float*>(to.data());
    auto* const received = reinterpret_cast<float*>(memory_ + kCounterBytes);
    const std::int64_t others = size_ - 1;
    const std::int64_t room = kReceivedBytes / static_cast<std::int64_t>(sizeof(float)) / others / 64 * 64;
    for (std::int64_t begin = 0; begin < to.elements(); begin += room) {
        const std::int64_t count = std::min(room, to.elements() - begin);
        for (int i = 0; i < others; ++i) {
            const int peer = (rank_ + 1 + i) % size_; // not all from one at once
            const int slot = peer < rank_ ? peer : peer - 1;
            copy(received + slot * room, on(peer, own + begin, buffer),
                 count * static_cast<std::int64_t>(sizeof(float)));
        }
        backend::ordered_sum(own + begin, rank_, received, room, static_cast<int>(others), result + begin,
                             count, stream_);
    }
}

// Each rank's part stands in its own `whole`.
void PeerCopies::gather_parts(const Tensor& whole) {
    const Buffer& buffer = *find(whole);
    const std::int64_t bytes = whole.bytes() / size_;
    for (int i = 1; i < size_; ++i) {
        const int peer = (rank_ + i) % size_;
        std::byte* const part = static_cast<std::byte*>(whole.data()) + peer * bytes;
        copy(part, on(peer, part, buffer), bytes);
    }
}

void PeerCopies::reduce_scatter(const Tensor& from, const Tensor& to) {
    round(); // all have written what is read here
    sum_part(from, to);
    round(); // all have read what may be written again
}

void PeerCopies::all_gather(const Tensor& from, const Tensor& to) {
    std::byte* const own = static_cast<std::byte*>(to.data()) + rank_ * from.bytes();
    if (from.data() != own)
        copy(own, from.data(), from.bytes());
    round();
    gather_parts(to);
    round();
}

void PeerCopies::all_reduce(const Tensor& x) {
    round();
    sum_part(x, x.flat(rank_ * x.elements() / size_, x.elements() / size_));
    round();
    gather_parts(x);
    round();
}

// Beyond every round that is enqueued, half a circle away.
void PeerCopies::abandon() {
    if (!ready())
        return;
    const std::vector<std::uint32_t> far(static_cast<std::size_t>(size_), rounds_ + 0x7FFF'0000u);
    cudaStream_t aside = nullptr;
    if (cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking) != cudaSuccess)
        return;
    cudaMemcpyAsync(memory_, far.data(), far.size() * sizeof(std::uint32_t), cudaMemcpyHostToDevice, aside);
    cudaStreamSynchronize(aside);
    cudaStreamDestroy(aside);
}

} // namespace trireme::comm
