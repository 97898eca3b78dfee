// cuBLASLt speaks of column-major matrices. A row-major matrix is its transpose there, so C = A B is asked
// for as C^T = B^T A^T: the operands change places and nothing is moved. Worked example: y [n, out] = x [n,
// in] W^T with W [out, in]: C^T is out x n, first operand W as in x out and transposed, second x as in x n.
#include "backend/cuda/gemm.hpp"

#include <algorithm>
#include <array>
#include <sstream>

#include "backend/cuda/check.hpp"

namespace trireme::backend {
namespace {

cudaDataType_t cuda_type(DType type) {
    if (type == DType::bf16)
        return CUDA_R_16BF;
    if (type == DType::f16)
        return CUDA_R_16F;
    if (type == DType::f32)
        return CUDA_R_32F;
    throw Error(ErrorCategory::usage,
                concat("matrix products of ", name(type),
                       " are not in the CUDA backend, which computes bf16, fp16 and fp32"),
                {"try: --bf16, --fp16 or --params-dtype fp32, or --device cpu for fp64"});
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
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const Value& value) {
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

struct TimedEvent {
    cudaEvent_t handle = nullptr;
    TimedEvent() { check(cudaEventCreate(&handle), "event of a timing"); }
    ~TimedEvent() { cudaEventDestroy(handle); }
    TimedEvent(const TimedEvent&) = delete;
    TimedEvent& operator=(const TimedEvent&) = delete;
};

cublasLtEpilogue_t epilogue_of(const Product& p) {
    TRIREME_ASSERT(p.epilogue == Epilogue::none || !p.bias.defined(),
                   "a product with a bias and an epilogue");
    if (p.epilogue == Epilogue::gelu_gradient)
        return CUBLASLT_EPILOGUE_DGELU;
    return p.bias.defined() ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

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

Gemm::Key Gemm::key_of(const Product& p) {
    return {p.m,
            p.n,
            p.k,
            static_cast<std::int64_t>(p.transpose_a),
            static_cast<std::int64_t>(p.transpose_b),
            static_cast<std::int64_t>(p.a.type()),
            static_cast<std::int64_t>(p.c.type()),
            p.bias.defined() ? 1 : 0,
            p.beta != 0 ? 1 : 0,
            static_cast<std::int64_t>(p.epilogue),
            p.addend.defined() ? 1 : 0,
            alignment_of(p.a),
            alignment_of(p.b),
            alignment_of(p.c),
            alignment_of(p.bias),
            alignment_of(p.aux),
            alignment_of(p.addend)};
}

// False if there is no algorithm.
bool Gemm::make_plan(const Product& p, Plan& plan, const Key& key) {
    if (handle_ == nullptr)
        check(cublasLtCreate(&handle_), "start of cuBLASLt");
    check(cublasLtMatmulDescCreate(&plan.product, CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "description of a product");
    set(plan.product, CUBLASLT_MATMUL_DESC_TRANSA, operation(p.transpose_b));
    set(plan.product, CUBLASLT_MATMUL_DESC_TRANSB, operation(p.transpose_a));
    set(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p));
    if (p.bias.defined()) {
        set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cuda_type(p.bias.type()));
        set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias.data());
    }
    if (p.epilogue == Epilogue::gelu_gradient) {
        set(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.aux.data());
        set(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.n);
        set(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, cuda_type(p.aux.type()));
    }
    plan.a = layout(p.b.type(), p.k, p.n, p.transpose_b);
    plan.b = layout(p.a.type(), p.m, p.k, p.transpose_a);
    plan.c = layout(p.c.type(), p.m, p.n, Transposed::no);
    if (const auto known = chosen_.find(key); known != chosen_.end() && works(plan, known->second)) {
        plan.algorithm = known->second;
        plan.timed = true;
        return true;
    }
    const std::vector<cublasLtMatmulAlgo_t> found = algorithms(plan, key, p, 1);
    if (found.empty())
        return false;
    plan.algorithm = found.front();
    return true;
}

// Whether a choice that was read fits this library: a file may say anything.
bool Gemm::works(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm) const {
    cublasLtMatmulHeuristicResult_t result{};
    return cublasLtMatmulAlgoCheck(handle_, plan.product, plan.a, plan.b, plan.c, plan.c, &algorithm,
                                   &result) == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= static_cast<std::size_t>(kWorkspaceBytes);
}

// What the heuristic names, best guess first; nothing if it knows none.
std::vector<cublasLtMatmulAlgo_t> Gemm::algorithms(const Plan& plan, const Key& key, const Product& p,
                                                   int most) {
    const Preference preference;
    set(preference.handle, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
        static_cast<std::uint64_t>(kWorkspaceBytes));
    // Of the ways to split the summed axis only those that add the parts in a fixed order.
    set(preference.handle, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    const auto align = [&](cublasLtMatmulPreferenceAttributes_t attribute, std::int64_t bytes) {
        set(preference.handle, attribute, static_cast<std::uint32_t>(bytes));
    };
    align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key[kAlignments + 1]);
    align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key[kAlignments]);
    align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key[kAlignments + 2]);
    align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key[kAlignments + 2]);

    std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle_, plan.product, plan.a, plan.b, plan.c, plan.c, preference.handle, most, found.data(), &count);
    if (status != CUBLAS_STATUS_SUCCESS)
        count = 0; // CUBLAS_STATUS_NOT_SUPPORTED, or a type that its epilogue does not take
    std::vector<cublasLtMatmulAlgo_t> result;
    for (int i = 0; i < count; ++i)
        if (found[static_cast<std::size_t>(i)].state == CUBLAS_STATUS_SUCCESS)
            result.push_back(found[static_cast<std::size_t>(i)].algo);
    return result;
}

void Gemm::run(const Product& p, const Plan& plan, const cublasLtMatmulAlgo_t& algorithm) {
    const float alpha = 1, beta = p.addend.defined() ? 1 : p.beta;
    const Tensor& added = p.addend.defined() ? p.addend : p.c;
    check(cublasLtMatmul(handle_, plan.product, &alpha, p.b.data(), plan.a, p.a.data(), plan.b, &beta,
                         added.data(), plan.c, p.c.data(), plan.c, &algorithm,
                         workspace_.reserve(kWorkspaceBytes), static_cast<std::size_t>(kWorkspaceBytes),
                         stream_),
          "matrix product");
}

// Candidates take turns, so that a clock that slows down under load slows all alike; the median of each
// counts. The heuristic's first guess stays unless another is clearly faster: so noise seldom changes the
// choice.
void Gemm::time_algorithms(const Product& p, Plan& plan, const Key& key) {
    constexpr int kCandidates = 12, kRounds = 7;
    constexpr float kClearly = 0.98F;
    const TimedEvent start, end;
    const std::vector<cublasLtMatmulAlgo_t> candidates = algorithms(plan, key, p, kCandidates);
    std::vector<std::vector<float>> milliseconds(candidates.size());
    for (int round = -1; round < kRounds; ++round) // the first warms up
        for (std::size_t i = 0; i < candidates.size(); ++i) {
            check(cudaEventRecord(start.handle, stream_), "event of a timing");
            run(p, plan, candidates[i]);
            check(cudaEventRecord(end.handle, stream_), "event of a timing");
            check(cudaEventSynchronize(end.handle), "wait for a timing");
            float took = 0;
            check(cudaEventElapsedTime(&took, start.handle, end.handle), "a timing");
            if (round >= 0)
                milliseconds[i].push_back(took);
        }
    std::size_t best = 0;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        std::ranges::nth_element(milliseconds[i], milliseconds[i].begin() + kRounds / 2);
        if (milliseconds[i][kRounds / 2] < milliseconds[best][kRounds / 2] * kClearly)
            best = i;
    }
    plan.algorithm = candidates[best];
    plan.timed = true;
    timed_[key] = chosen_[key] = plan.algorithm;
}

void Gemm::multiply(const Product& p) {
    if (!try_multiply(p))
        throw Error(ErrorCategory::device, "cuBLASLt knows no algorithm for a matrix product",
                    {concat("[", p.m, ", ", p.k, "] x [", p.k, ", ", p.n, "] of ", name(p.a.type()), " into ",
                            name(p.c.type()))});
}

bool Gemm::try_multiply(const Product& p) {
    if (p.m == 0 || p.n == 0)
        return true;
    if (p.k == 0)
        throw Error(ErrorCategory::internal, "a matrix product over nothing");
    TRIREME_ASSERT(p.beta == 0 || !p.addend.defined(), "a product added to two matrices");
    const Key key = key_of(p);
    if (impossible_.contains(key))
        return false;
    const auto [at, is_new] = plans_.try_emplace(key);
    Plan& plan = at->second;
    if (is_new && !make_plan(p, plan, key)) {
        plans_.erase(at);
        impossible_.insert(key);
        return false;
    }
    if (p.bias.defined())
        set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias.data());
    if (p.epilogue == Epilogue::gelu_gradient)
        set(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.aux.data());
    if (tuning_ == Tuning::on && !plan.timed)
        time_algorithms(p, plan, key);
    run(p, plan, plan.algorithm);
    return true;
}

namespace {

// What choices hold for, in one word: "NVIDIA_H200/13.0.2".
std::string scope() {
    int device = 0;
    cudaDeviceProp properties{};
    check(cudaGetDevice(&device), "look-up of the GPU");
    check(cudaGetDeviceProperties(&properties, device), "look-up of the GPU");
    std::string gpu = properties.name;
    std::ranges::replace(gpu, ' ', '_');
    const std::size_t version = cublasLtGetVersion();
    return concat(gpu, "/", version / 10000, ".", version / 100 % 100, ".", version % 100);
}

} // namespace

// A line: what it holds for, the key's numbers, then the algorithm's words in hexadecimal.
std::string Gemm::choices() const {
    const std::string here = scope();
    std::ostringstream text;
    for (const auto& [key, algorithm] : timed_) {
        text << here << ' ';
        for (const std::int64_t number : key)
            text << std::dec << number << ' ';
        for (const std::uint64_t word : algorithm.data)
            text << std::hex << word << ' ';
        text << '\n';
    }
    return text.str();
}

void Gemm::use_choices(std::string_view lines) {
    const std::string here = scope();
    std::istringstream text{std::string(lines)};
    for (std::string line; std::getline(text, line);) {
        std::istringstream words(line);
        std::string holds_for;
        Key key{};
        cublasLtMatmulAlgo_t algorithm{};
        words >> holds_for;
        if (holds_for != here)
            continue;
        for (std::int64_t& number : key)
            words >> std::dec >> number;
        for (std::uint64_t& word : algorithm.data)
            words >> std::hex >> word;
        if (!words)
            throw Error(ErrorCategory::device, "a line of matrix algorithms cannot be read",
                        {line, "try: remove the file that it comes from; the products are then timed again"});
        chosen_[key] = algorithm;
    }
    plans_.clear(); // made again with these choices
}

} // namespace trireme::backend
