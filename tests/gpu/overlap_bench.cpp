// What moving bytes between two GPUs costs beside matrix products: NCCL's reduce-scatter and all-gather,
// which take multiprocessors, and reads of the other GPU's memory by the copy engines, which take none, with
// the addition that makes a reduce-scatter of them. The products are those of the article's 7B (one of its
// largest, again and again), the transfers a bucket of its gradients or weights. Of each: products alone,
// transfers alone, both, and the share of the transfers that is hidden: (products + transfers - both) /
// transfers. usage: mpirun -np 2 overlap_bench
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <cuda_runtime_api.h>
#include <functional>
#include <iomanip>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/check.hpp"
#include "backend/cuda/cuda_backend.hpp"
#include "trireme/comm/runtime.hpp"

namespace {

using namespace trireme;
using backend::StreamRole;

constexpr std::int64_t kTokens = 14336, kHidden = 4096, kWide = 16384; // of a product
constexpr std::int64_t kBucket = kHidden * kWide;                      // parameters
constexpr int kProducts = 40, kTransfers = 20, kTurns = 5;

class Bench {
  public:
    explicit Bench(comm::Runtime& runtime)
        : runtime_(runtime),
          gpu_(backend::make_backend({.device = backend::Device::cuda, .local_rank = runtime.local_rank()})),
          groups_(runtime, {1, 2, 1}, *gpu_), x_(take(Shape{kTokens, kHidden}, DType::bf16)),
          weight_(take(Shape{kWide, kHidden}, DType::bf16)), y_(take(Shape{kTokens, kWide}, DType::bf16)),
          gradients_(take(Shape{kBucket}, DType::f32)), weights_(take(Shape{kBucket}, DType::bf16)),
          received_(take(Shape{kBucket / 2}, DType::f32)) {
        open_the_others_gradients();
    }
    ~Bench() {
        for (const Tensor& tensor : {x_, weight_, y_, gradients_, weights_, received_})
            gpu_->release(tensor.data(), tensor.bytes());
    }
    Bench(const Bench&) = delete;
    Bench& operator=(const Bench&) = delete;

    void run() {
        const int me = groups_.data->rank();
        const Tensor mine = gradients_.flat(me * kBucket / 2, kBucket / 2);
        compare("NCCL, reduce-scatter of fp32",
                [&] { requests_.push_back(groups_.data->start_reduce_scatter(gradients_, mine)); });
        compare("NCCL, all-gather of bf16", [&] {
            requests_.push_back(
                groups_.data->start_all_gather(weights_.flat(me * kBucket / 2, kBucket / 2), weights_));
        });
        const auto read_theirs = [&] {
            backend::check(
                cudaMemcpyAsync(received_.data(), static_cast<float*>(theirs_) + me * kBucket / 2,
                                static_cast<std::size_t>(received_.bytes()), cudaMemcpyDeviceToDevice,
                                dynamic_cast<backend::CudaBackend&>(*gpu_).stream(StreamRole::copy)),
                "copy between GPUs");
        };
        compare("copy engine, half a bucket of fp32", read_theirs);
        compare("the same, added where it belongs", [&] {
            read_theirs();
            gpu_->operations(StreamRole::copy).add(received_, mine);
        });
        // Nobody frees what the other still has open.
        backend::check(cudaIpcCloseMemHandle(theirs_), "end of access to the other GPU's memory");
        runtime_.world().all_gather("closed");
    }

  private:
    Tensor take(const Shape& shape, DType type) {
        return {gpu_->allocate(shape.elements() * size_bytes(type)), shape, type};
    }

    void open_the_others_gradients() {
        cudaIpcMemHandle_t handle{};
        backend::check(cudaIpcGetMemHandle(&handle, gradients_.data()), "handle of memory");
        const std::vector<std::string> all =
            runtime_.world().all_gather(std::string(reinterpret_cast<const char*>(&handle), sizeof handle));
        std::memcpy(&handle, all[static_cast<std::size_t>(1 - runtime_.rank())].data(), sizeof handle);
        backend::check(cudaIpcOpenMemHandle(&theirs_, handle, cudaIpcMemLazyEnablePeerAccess),
                       "access to the other GPU's memory");
    }

    // Milliseconds, the median of the slower rank's.
    double time(int products, const std::function<void()>& transfer) {
        std::vector<double> turns;
        for (int turn = -1; turn < kTurns; ++turn) { // the first warms up
            settle();
            std::array<double, 1> milliseconds{};
            runtime_.world().all_reduce(milliseconds, comm::ReduceOp::max);
            const auto start = std::chrono::steady_clock::now();
            for (int i = 0; i < std::max(products, kTransfers); ++i) {
                if (i < products)
                    gpu_->compute().linear_forward(x_, weight_, {}, y_);
                if (transfer && i % (std::max(products, kTransfers) / kTransfers) == 0)
                    transfer();
            }
            settle();
            milliseconds[0] =
                std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
            runtime_.world().all_reduce(milliseconds, comm::ReduceOp::max);
            if (turn >= 0)
                turns.push_back(milliseconds[0]);
        }
        std::ranges::sort(turns);
        return turns[turns.size() / 2];
    }
    void settle() {
        for (comm::Request& request : requests_)
            groups_.data->wait(request);
        requests_.clear();
        for (const StreamRole role : {StreamRole::compute, StreamRole::copy})
            gpu_->synchronize(role);
    }

    void compare(const char* what, const std::function<void()>& transfer) {
        const double products = time(kProducts, {}), transfers = time(0, transfer),
                     both = time(kProducts, transfer);
        if (runtime_.rank() == 0)
            std::cout << std::left << std::setw(38) << what << std::right << std::fixed
                      << std::setprecision(1) << "products " << products << " ms, transfers " << transfers
                      << " ms, both " << both << " ms, hidden " << std::setprecision(2)
                      << (products + transfers - both) / transfers << std::endl;
    }

    comm::Runtime& runtime_;
    std::unique_ptr<backend::Backend> gpu_;
    comm::ProcessGroups groups_;
    Tensor x_, weight_, y_, gradients_, weights_, received_;
    void* theirs_ = nullptr; // gradients of the other GPU
    std::vector<comm::Request> requests_;
};

} // namespace

int main(int argc, char** argv) {
    comm::Runtime runtime(argc, argv);
    try {
        if (runtime.ranks() != 2 || argc > 1)
            throw Error(ErrorCategory::usage, "usage: mpirun -np 2 overlap_bench");
        Bench(runtime).run();
    } catch (const Error& error) {
        return runtime.report(error);
    }
}
