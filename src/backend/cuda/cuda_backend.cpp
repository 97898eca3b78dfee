// One GPU: its memory, streams by role, events in a ring, and copies. The host waits only where backend.hpp
// says so.
#include "backend/cuda/cuda_backend.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <nvtx3/nvToolsExt.h>

#include "backend/cuda/check.hpp"
#include "backend/cuda/make_cuda.hpp"
#include "trireme/base/sizes.hpp"

namespace trireme::backend {
namespace {

void require_equal_bytes(const Tensor& from, const Tensor& to) {
    if (from.bytes() != to.bytes())
        throw Error(
            ErrorCategory::internal, "copy between host and device: the sizes differ",
            {concat("from ", from.shape().text(), " ", name(from.type()), ", ", from.bytes(), " bytes"),
             concat("to ", to.shape().text(), " ", name(to.type()), ", ", to.bytes(), " bytes")});
}

} // namespace

CudaBackend::CudaBackend(int device, SumOrder sums) : device_(device) {
    check(cudaSetDevice(device_), concat("choice of GPU ", device_).c_str());
    for (cudaStream_t& stream : streams_)
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    events_.resize(kEvents);
    for (cudaEvent_t& event : events_)
        check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event");
    for (std::size_t role = 0; role < operations_.size(); ++role)
        operations_[role] = std::make_unique<CudaOperations>(streams_[role], *this, sums);
    staging_ = std::make_unique<Staging>();
    for (HostCopySlot& slot : host_copies_) {
        void* pinned = nullptr;
        check(cudaMallocHost(&pinned, HostCopy::kMostBytes), "pinned host memory");
        slot.bytes = static_cast<std::byte*>(pinned);
        check(cudaEventCreateWithFlags(&slot.done, cudaEventDisableTiming), "event of a copy");
    }
}

CudaBackend::~CudaBackend() {
    cudaDeviceSynchronize();
    operations_ = {};
    staging_.reset();
    for (const std::vector<cudaEvent_t>* const events : {&events_, &marks_})
        for (const cudaEvent_t event : *events)
            cudaEventDestroy(event);
    for (const HostCopySlot& slot : host_copies_) {
        cudaEventDestroy(slot.done);
        cudaFreeHost(slot.bytes);
    }
    for (const cudaStream_t stream : streams_)
        cudaStreamDestroy(stream);
}

void* CudaBackend::allocate(std::int64_t bytes) {
    void* data = nullptr;
    const auto count = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
    if (const cudaError_t status = cudaMalloc(&data, count); status != cudaSuccess) {
        cudaGetLastError(); // it is reported here and must not show up in the next call
        std::size_t free = 0, total = 0;
        if (cudaMemGetInfo(&free, &total) != cudaSuccess)
            free = total = 0;
        throw Error(ErrorCategory::device, concat("GPU ", device_, " has no ", show_bytes(bytes), " left"),
                    {concat("free: ", show_bytes(static_cast<std::int64_t>(free)), " of ",
                            show_bytes(static_cast<std::int64_t>(total)),
                            ", taken by this rank so far: ", show_bytes(allocated_bytes_)),
                     concat("CUDA says: ", cudaGetErrorString(status)),
                     "try: a smaller --micro-batch-size, --recompute-activations, or more GPUs"});
    }
    // On the compute stream and waited for: whichever stream touches the memory first finds zeros.
    check(cudaMemsetAsync(data, 0, count, stream(StreamRole::compute)), "clearing of memory");
    check(cudaStreamSynchronize(stream(StreamRole::compute)), "clearing of memory");
    allocated_bytes_ += bytes;
    ++allocations_;
    return data;
}

void CudaBackend::release(void* data, std::int64_t bytes) noexcept {
    cudaFree(data);
    allocated_bytes_ -= bytes;
}

std::optional<std::int64_t> CudaBackend::available_bytes() const {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "look-up of free memory");
    return static_cast<std::int64_t>(free);
}

std::string CudaBackend::description() const {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, device_), "look-up of the GPU");
    int driver = 0;
    check(cudaDriverGetVersion(&driver), "look-up of the driver");
    return concat("CUDA, ", properties.name, " (GPU ", device_, ", ",
                  show_bytes(static_cast<std::int64_t>(properties.totalGlobalMem)), ", compute capability ",
                  properties.major, ".", properties.minor, "), cuBLASLt ", cublasLtGetVersion() / 10000, ".",
                  cublasLtGetVersion() / 100 % 100, ", ", CudnnAttention::server(), ", driver for CUDA ",
                  driver / 1000, ".", driver / 10 % 100);
}

std::string CudaBackend::pci_address() const {
    std::array<char, 32> address{};
    check(cudaDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), device_),
          "look-up of the GPU");
    return address.data();
}

Operations& CudaBackend::operations(StreamRole role) {
    return *operations_[static_cast<std::size_t>(role)];
}

Event CudaBackend::record(StreamRole role) {
    const std::size_t index = next_event_;
    next_event_ = (next_event_ + 1) % kEvents;
    check(cudaEventRecord(events_[index], stream(role)), "event");
    return {static_cast<std::int32_t>(index)};
}

void CudaBackend::wait(StreamRole role, Event event) {
    if (event.index >= 0)
        check(cudaStreamWaitEvent(stream(role), events_[static_cast<std::size_t>(event.index)], 0),
              "wait for an event");
}

void CudaBackend::synchronize(StreamRole role) {
    check(cudaStreamSynchronize(stream(role)), "wait for a stream");
}

TimeMark CudaBackend::mark() {
    if (next_mark_ == marks_.size()) {
        cudaEvent_t event = nullptr;
        check(cudaEventCreate(&event), "event of a timer");
        marks_.push_back(event);
    }
    check(cudaEventRecord(marks_[next_mark_], stream(StreamRole::compute)), "event of a timer");
    return {static_cast<std::int64_t>(next_mark_++)};
}

double CudaBackend::seconds_between(TimeMark from, TimeMark to) {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, marks_[static_cast<std::size_t>(from.value)],
                               marks_[static_cast<std::size_t>(to.value)]),
          "reading of a timer");
    return 1e-3 * static_cast<double>(milliseconds);
}

void CudaBackend::push_range(const char* name) {
    nvtxRangePushA(name);
}
void CudaBackend::pop_range() {
    nvtxRangePop();
}

void CudaBackend::copy_to_host(const Tensor& from, Tensor to) {
    require_equal_bytes(from, to);
    if (from.bytes() == 0)
        return;
    const cudaStream_t compute = stream(StreamRole::compute);
    check(cudaMemcpyAsync(to.data(), from.data(), static_cast<std::size_t>(from.bytes()),
                          cudaMemcpyDeviceToHost, compute),
          "copy to the host");
    check(cudaStreamSynchronize(compute), "copy to the host");
}

void CudaBackend::copy_to_device(const Tensor& from, Tensor to) {
    require_equal_bytes(from, to);
    check(cudaSetDevice(device_), "choice of a GPU"); // of this thread
    staging_->to_device(from.data(), to.data(), from.bytes(), stream(StreamRole::compute));
}

HostCopy CudaBackend::start_copy_to_host(const Tensor& from) {
    HostCopySlot& slot = host_copies_[next_host_copy_];
    TRIREME_ASSERT(from.bytes() > 0 && from.bytes() <= HostCopy::kMostBytes, "a host copy of ", from.bytes(),
                   " bytes");
    TRIREME_ASSERT(slot.taken_bytes == 0, "more host copies are under way than there are slots");
    const cudaStream_t compute = stream(StreamRole::compute);
    check(cudaMemcpyAsync(slot.bytes, from.data(), static_cast<std::size_t>(from.bytes()),
                          cudaMemcpyDeviceToHost, compute),
          "copy to the host");
    check(cudaEventRecord(slot.done, compute), "event of a copy");
    slot.taken_bytes = from.bytes();
    const HostCopy copy{static_cast<std::int64_t>(next_host_copy_), {}};
    next_host_copy_ = (next_host_copy_ + 1) % host_copies_.size();
    return copy;
}

void CudaBackend::finish_copy_to_host(const HostCopy& copy, Tensor to) {
    HostCopySlot& slot = host_copies_[static_cast<std::size_t>(copy.number)];
    TRIREME_ASSERT(slot.taken_bytes == to.bytes(), "a host copy of ", slot.taken_bytes, " bytes into ",
                   to.bytes());
    slot.taken_bytes = 0;
    check(cudaEventSynchronize(slot.done), "copy to the host");
    std::memcpy(to.data(), slot.bytes, static_cast<std::size_t>(to.bytes()));
}

// Products run on the compute stream only.
void CudaBackend::start_tuning() {
    operations_[static_cast<std::size_t>(StreamRole::compute)]->gemm().set_tuning(Tuning::on);
}

std::string CudaBackend::end_tuning() {
    Gemm& gemm = operations_[static_cast<std::size_t>(StreamRole::compute)]->gemm();
    gemm.set_tuning(Tuning::off);
    return gemm.choices();
}

void CudaBackend::use_tuned(std::string_view choices) {
    operations_[static_cast<std::size_t>(StreamRole::compute)]->gemm().use_choices(choices);
}

std::unique_ptr<Backend> make_cuda_backend(int local_rank, SumOrder sums) {
    // A hardware queue for each stream (by default 8): what shares one waits for what stands before it in
    // another stream, be it a message. CUDA reads this once. A user's own choice stands.
    ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    int devices = 0;
    check(cudaGetDeviceCount(&devices), "look for GPUs");
    if (devices == 0)
        check(cudaErrorNoDevice, "look for GPUs");
    // One visible GPU: the launcher gave each rank its own.
    const int device = devices == 1 ? 0 : local_rank;
    if (device >= devices)
        throw Error(ErrorCategory::device,
                    concat("rank ", local_rank, " of this node has no GPU: ", devices, " are visible"),
                    {"try: as many ranks a node as GPUs (srun --ntasks-per-node), or --device cpu"});
    return std::make_unique<CudaBackend>(device, sums);
}

} // namespace trireme::backend
