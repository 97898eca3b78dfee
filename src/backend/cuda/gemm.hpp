// Matrix products by cuBLASLt. The algorithm for each shape is chosen once and remembered: the heuristic's
// first, or, while tuning, the fastest of those that it names, timed on the real operands. Choices go out and
// in as text, so that all ranks and a resumed run use the same. Sums are never split over atomics. The
// workspace has a fixed size.
#pragma once

#include <array>
#include <cstdint>
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/scratch.hpp"
#include "backend/cuda/scratch_needs.hpp"
#include "trireme/tensor/tensor.hpp"

namespace trireme::backend {

enum class Transposed : std::uint8_t { no, yes };
// What happens to a result before it is stored. gelu_gradient: it is multiplied by the derivative of GELU at
// aux [m, n].
enum class Epilogue : std::uint8_t { none, gelu_gradient };
enum class Tuning : std::uint8_t { off, on };

// C [m, n] = op(A) [m, k] op(B) [k, n] + beta C + addend + bias [n], all row-major; A and B have one type,
// fp32 sums. Either beta or an addend, not both.
struct Product {
    std::int64_t m = 0, n = 0, k = 0;
    Transposed transpose_a = Transposed::no, transpose_b = Transposed::no;
    Tensor a, b, c;
    Tensor addend; // [m, n] like c, undefined: none
    Tensor bias;   // undefined: none
    Epilogue epilogue = Epilogue::none;
    Tensor aux;
    float beta = 0;
};

class Gemm {
  public:
    static constexpr std::int64_t kWorkspaceBytes = cuda_scratch::kGemmWorkspaceBytes;

    Gemm(cudaStream_t stream, memory::Allocator& allocator) : stream_(stream), workspace_(allocator) {}
    Gemm(const Gemm&) = delete;
    Gemm& operator=(const Gemm&) = delete;
    ~Gemm();

    void multiply(const Product& product);
    // Takes the workspace now instead of at the first product.
    void reserve_workspace() { workspace_.reserve(kWorkspaceBytes); }
    // False, and nothing is done, if cuBLASLt has no algorithm for it.
    bool try_multiply(const Product& product);

    // While on, products of shapes that nobody has timed are computed many times over: results are worth
    // nothing.
    void set_tuning(Tuning tuning) { tuning_ = tuning; }
    // One line a shape that was timed here, opened by the GPU and the version of cuBLASLt. use_choices takes
    // such lines, passes over those of other GPUs and versions; later ones win.
    std::string choices() const;
    void use_choices(std::string_view lines);

  private:
    // All that the choice of an algorithm depends on: sizes, transposes, types, bias or not, beta or not,
    // epilogue, addend or not, and the alignments of a, b, c, bias, aux and addend in bytes.
    static constexpr std::size_t kAlignments = 11; // where they begin
    using Key = std::array<std::int64_t, kAlignments + 6>;
    struct Plan {
        cublasLtMatmulDesc_t product = nullptr;
        cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
        cublasLtMatmulAlgo_t algorithm{};
        bool timed = false;
        ~Plan();
    };
    static Key key_of(const Product& product);
    bool make_plan(const Product& product, Plan& plan, const Key& key);
    std::vector<cublasLtMatmulAlgo_t> algorithms(const Plan& plan, const Key& key, const Product& product,
                                                 int most);
    bool works(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm) const;
    void run(const Product& product, const Plan& plan, const cublasLtMatmulAlgo_t& algorithm);
    void time_algorithms(const Product& product, Plan& plan, const Key& key);

    cudaStream_t stream_;
    DeviceScratch workspace_;
    cublasLtHandle_t handle_ = nullptr; // made at the first product
    std::map<Key, Plan> plans_;
    std::map<Key, cublasLtMatmulAlgo_t> timed_;  // here
    std::map<Key, cublasLtMatmulAlgo_t> chosen_; // here or elsewhere
    std::set<Key> impossible_;
    Tuning tuning_ = Tuning::off;
};

} // namespace trireme::backend
