// cuBLASLt speaks of column-major matrices. A row-major matrix is its transpose there, so C = A B is asked for as
// C^T = B^T A^T: the operands change places and nothing is moved. Worked example: y [n, out] = x [n, in] W^T with
// W [out, in]: C^T is out x n, first operand W as in x out and transposed, second x as in x n.
#include "backend/cuda/gemm.hpp"

#include <algorithm>
#include <array>

#include "backend/cuda/check.hpp"

namespace trireme::backend {
namespace {

cudaDataType_t cuda_type(DType type) {
    if (type == DType::bf16)
        return CUDA_R_16BF;
    if (type == DType::f32)
        return CUDA_R_32F;
    throw Error(ErrorCategory::usage,
                concat("matrix products of ", name(type), " are not in the CUDA backend, which computes bf16 and fp32"),
                {"try: --bf16 or --params-dtype fp32, or --device cpu for fp64"});
}

int alignment_of(const Tensor& tensor) {
    const auto address = reinterpret_cast<std::uintptr_t>(tensor.data());
    return address == 0 ? 256 : static_cast<int>(std::min<std::uintptr_t>(256, address & (~address + 1)));
}

template <class Value>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    check(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof value), "attribute of a product");
}
template <class Value>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
    check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
          "preference for a product");
}

cublasOperation_t operation(Transposed transposed) {
    return transposed == Transposed::yes ? CUBLAS_OP_T : CUBLAS_OP_N;
}

// The layout of a row-major [rows, columns] matrix, or of the one whose transpose it is.
cublasLtMatrixLayout_t layout(DType type, std::int64_t rows, std::int64_t columns, Transposed transposed) {
    if (transposed == Transposed::yes)
        std::swap(rows, columns);
    cublasLtMatrixLayout_t made = nullptr;
    check(cublasLtMatrixLayoutCreate(&made, cuda_type(type), static_cast<std::uint64_t>(columns),
                                     static_cast<std::uint64_t>(rows), columns),
          "layout of a matrix");
    return made;
}

struct Preference {
    cublasLtMatmulPreference_t handle = nullptr;
    Preference() { check(cublasLtMatmulPreferenceCreate(&handle), "preference for a product"); }
    ~Preference() { cublasLtMatmulPreferenceDestroy(handle); }
    Preference(const Preference&) = delete;
    Preference& operator=(const Preference&) = delete;
};

} // namespace

Gemm::Plan::~Plan() {
    for (const cublasLtMatrixLayout_t matrix : {a, b, c})
        if (matrix != nullptr)
            cublasLtMatrixLayoutDestroy(matrix);
    if (product != nullptr)
        cublasLtMatmulDescDestroy(product);
}

Gemm::~Gemm() {
    plans_.clear();
    if (handle_ != nullptr)
        cublasLtDestroy(handle_);
}

void Gemm::make_plan(const Product& p, Plan& plan, const Key& key) {
    if (handle_ == nullptr)
        check(cublasLtCreate(&handle_), "start of cuBLASLt");
    check(cublasLtMatmulDescCreate(&plan.product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "description of a product");
    set(plan.product, CUBLASLT_MATMUL_DESC_TRANSA, operation(p.transpose_b));
    set(plan.product, CUBLASLT_MATMUL_DESC_TRANSB, operation(p.transpose_a));
    if (p.bias.defined()) {
        set(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
        set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cuda_type(p.bias.type()));
        set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias.data());
    }
    plan.a = layout(p.b.type(), p.k, p.n, p.transpose_b);
    plan.b = layout(p.a.type(), p.m, p.k, p.transpose_a);
    plan.c = layout(p.c.type(), p.m, p.n, Transposed::no);

    const Preference preference;
    set(preference.handle, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kWorkspaceBytes));
    // Of the ways to split the summed axis only those that add the parts in a fixed order.
    set(preference.handle, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    const auto align = [&](cublasLtMatmulPreferenceAttributes_t attribute, int bytes) {
        set(preference.handle, attribute, static_cast<std::uint32_t>(bytes));
    };
    align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, std::get<10>(key));
    align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, std::get<9>(key));
    align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, std::get<11>(key));
    align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, std::get<11>(key));

    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle_, plan.product, plan.a, plan.b, plan.c, plan.c,
                                                                 preference.handle, 1, &found, &count);
    if (status != CUBLAS_STATUS_SUCCESS || count == 0)
        throw Error(ErrorCategory::device, "cuBLASLt knows no algorithm for a matrix product",
                    {concat("[", p.m, ", ", p.k, "] x [", p.k, ", ", p.n, "] of ", name(p.a.type()), " into ",
                            name(p.c.type())),
                     concat("cuBLASLt says: ", cublasLtGetStatusString(status))});
    plan.algorithm = found.algo;
}

void Gemm::multiply(const Product& p) {
    if (p.m == 0 || p.n == 0)
        return;
    if (p.k == 0)
        throw Error(ErrorCategory::internal, "a matrix product over nothing");
    const Key key{p.m,
                  p.n,
                  p.k,
                  p.transpose_a,
                  p.transpose_b,
                  p.a.type(),
                  p.c.type(),
                  p.bias.defined(),
                  p.beta != 0,
                  alignment_of(p.a),
                  alignment_of(p.b),
                  alignment_of(p.c),
                  alignment_of(p.bias)};
    const auto [at, is_new] = plans_.try_emplace(key);
    Plan& plan = at->second;
    if (is_new) {
        try {
            make_plan(p, plan, key);
        } catch (const Error&) {
            plans_.erase(at);
            throw;
        }
    }
    if (p.bias.defined())
        set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias.data());
    const float alpha = 1;
    check(cublasLtMatmul(handle_, plan.product, &alpha, p.b.data(), plan.a, p.a.data(), plan.b, &p.beta, p.c.data(),
                         plan.c, p.c.data(), plan.c, &plan.algorithm, workspace_.reserve(kWorkspaceBytes),
                         static_cast<std::size_t>(kWorkspaceBytes), stream_),
          "matrix product");
}

} // namespace trireme::backend
