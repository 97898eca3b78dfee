// Matrix products by cuBLASLt. The algorithm for each shape comes from its heuristic once and is remembered; sums are never
// split over atomics, so the same product gives the same bits every time. The workspace has a fixed size.
#pragma once

#include <cstdint>
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <map>
#include <tuple>

#include "backend/cuda/scratch.hpp"
#include "trireme/tensor/tensor.hpp"

namespace trireme::backend {

enum class Transposed : std::uint8_t { no, yes };

// C [m, n] = op(A) [m, k] op(B) [k, n] + beta C + bias [n], all row-major; A and B have one type, fp32 sums.
struct Product {
    std::int64_t m = 0, n = 0, k = 0;
    Transposed transpose_a = Transposed::no, transpose_b = Transposed::no;
    Tensor a, b, c;
    Tensor bias; // undefined: none
    float beta = 0;
};

class Gemm {
  public:
    static constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20; // what cuBLAS asks for on Hopper

    Gemm(cudaStream_t stream, memory::Allocator& allocator) : stream_(stream), workspace_(allocator) {}
    Gemm(const Gemm&) = delete;
    Gemm& operator=(const Gemm&) = delete;
    ~Gemm();

    void multiply(const Product& product);

  private:
    // All that the choice of an algorithm depends on; alignments of a, b, c and bias are in bytes.
    using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, Transposed, Transposed, DType, DType, bool, bool,
                           int, int, int, int>;
    struct Plan {
        cublasLtMatmulDesc_t product = nullptr;
        cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
        cublasLtMatmulAlgo_t algorithm{};
        ~Plan();
    };
    void make_plan(const Product& product, Plan& plan, const Key& key);

    cudaStream_t stream_;
    DeviceScratch workspace_;
    cublasLtHandle_t handle_ = nullptr; // made at the first product
    std::map<Key, Plan> plans_;
};

} // namespace trireme::backend
