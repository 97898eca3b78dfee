// Graphs of cuDNN's fused attention over the packed [T, B, H + 2 G, D]: query, key and value are one buffer
// seen with three offsets, so nothing is moved. The statistics are the logsumexp of ops.hpp.
#include "backend/cuda/attention_cudnn.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

#include <cudnn.h>

#include "backend/cuda/check.hpp"
#include "backend/cuda/scratch_needs.hpp"

#ifdef TRIREME_CUDNN_FRONTEND
#include <cudnn_frontend.h>
#endif

namespace trireme::backend {

#ifdef TRIREME_CUDNN_FRONTEND
namespace {

namespace fe = cudnn_frontend;
using GraphTensor = std::shared_ptr<fe::graph::Tensor_attributes>;

enum Name : std::int64_t {
    kQuery = 1,
    kKey,
    kValue,
    kOut,
    kStatistics,
    kGradOut,
    kGradQuery,
    kGradKey,
    kGradValue
};

// Whether a graph serves the forward or the backward pass.
enum class Pass : std::uint8_t { forward, backward };

struct Shapes {
    std::int64_t length, batch, heads, groups, dim;
    double scale;
    Causal causal;
    Pass pass;
    auto operator<=>(const Shapes&) const = default;
};

Shapes shapes_of(const Tensor& qkv, const Attention& attention, Pass pass) {
    return {qkv.shape()[0],     qkv.shape()[1],  attention.heads,  attention.groups,
            attention.head_dim, attention.scale, attention.causal, pass};
}

// `heads` heads of a [T, B, packed, D] buffer, as the [B, heads, T, D] that cuDNN speaks of.
fe::graph::Tensor_attributes part(Name name, const Shapes& s, std::int64_t heads, std::int64_t packed) {
    return fe::graph::Tensor_attributes()
        .set_uid(name)
        .set_dim({s.batch, heads, s.length, s.dim})
        .set_stride({packed * s.dim, s.dim, s.batch * packed * s.dim, 1})
        .set_data_type(fe::DataType_t::BFLOAT16);
}

void require(fe::error_t error, const char* tried) {
    if (error.is_bad())
        throw Error(ErrorCategory::device, concat("cuDNN could not do: ", tried),
                    {concat("cuDNN says: ", error.get_message()),
                     "try: a build without cudnn-frontend, in which an own kernel computes attention"});
}

struct Graph {
    fe::graph::Graph graph;
    std::int64_t workspace_bytes = 0;
    bool usable = false;
};

// usable stays false if cuDNN has no engine for it.
void build(const Shapes& s, SumOrder sums, cudnnHandle_t handle, Graph& made) {
    fe::graph::Graph& graph = made.graph;
    graph.set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    const std::int64_t packed = s.heads + 2 * s.groups;
    const GraphTensor query = graph.tensor(part(kQuery, s, s.heads, packed));
    const GraphTensor key = graph.tensor(part(kKey, s, s.groups, packed));
    const GraphTensor value = graph.tensor(part(kValue, s, s.groups, packed));
    const std::vector<std::int64_t> stat_dim{s.batch, s.heads, s.length, 1},
        stat_stride{s.heads * s.length, s.length, 1, 1};
    const auto place = [&](const GraphTensor& tensor, Name name, std::int64_t heads, std::int64_t of) {
        tensor->set_output(true)
            .set_uid(name)
            .set_dim({s.batch, heads, s.length, s.dim})
            .set_stride({of * s.dim, s.dim, s.batch * of * s.dim, 1})
            .set_data_type(fe::DataType_t::BFLOAT16);
    };
    if (s.pass == Pass::forward) {
        auto options = fe::graph::SDPA_attributes()
                           .set_name("attention")
                           .set_is_inference(false)
                           .set_attn_scale(static_cast<float>(s.scale));
        options.set_causal_mask(s.causal == Causal::yes);
        const auto [out, statistics] = graph.sdpa(query, key, value, options);
        place(out, kOut, s.heads, s.heads);
        statistics->set_output(true)
            .set_uid(kStatistics)
            .set_dim(stat_dim)
            .set_stride(stat_stride)
            .set_data_type(fe::DataType_t::FLOAT);
    } else {
        const GraphTensor out = graph.tensor(part(kOut, s, s.heads, s.heads));
        const GraphTensor grad_out = graph.tensor(part(kGradOut, s, s.heads, s.heads));
        const GraphTensor statistics = graph.tensor(fe::graph::Tensor_attributes()
                                                        .set_uid(kStatistics)
                                                        .set_dim(stat_dim)
                                                        .set_stride(stat_stride)
                                                        .set_data_type(fe::DataType_t::FLOAT));
        auto options = fe::graph::SDPA_backward_attributes()
                           .set_name("attention gradient")
                           .set_attn_scale(static_cast<float>(s.scale))
                           .set_deterministic_algorithm(sums == SumOrder::fixed);
        options.set_causal_mask(s.causal == Causal::yes);
        const auto [grad_query, grad_key, grad_value] =
            graph.sdpa_backward(query, key, value, out, grad_out, statistics, options);
        place(grad_query, kGradQuery, s.heads, packed);
        place(grad_key, kGradKey, s.groups, packed);
        place(grad_value, kGradValue, s.groups, packed);
    }
    made.usable = graph.validate().is_good() && graph.build_operation_graph(handle).is_good() &&
                  graph.create_execution_plans({fe::HeurMode_t::A}).is_good() &&
                  graph.check_support(handle).is_good() && graph.build_plans(handle).is_good() &&
                  graph.get_workspace_size(made.workspace_bytes).is_good();
}

std::byte* offset(const Tensor& tensor, std::int64_t elements) {
    return static_cast<std::byte*>(tensor.data()) + elements * size_bytes(tensor.type());
}

} // namespace

struct CudnnAttention::Impl {
    cudnnHandle_t handle = nullptr;
    SumOrder sums;
    std::map<Shapes, Graph> graphs;

    Impl(cudaStream_t stream, SumOrder order) : sums(order) {
        check(cudnnCreate(&handle), "start of cuDNN");
        check(cudnnSetStream(handle, stream), "stream of cuDNN");
    }
    ~Impl() { cudnnDestroy(handle); }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    Graph& graph(const Shapes& shapes) {
        const auto [at, is_new] = graphs.try_emplace(shapes);
        if (is_new)
            build(shapes, sums, handle, at->second);
        return at->second;
    }
    void run(Graph& graph, std::unordered_map<std::int64_t, void*>& tensors, DeviceScratch& workspace,
             const char* what) {
        require(graph.graph.execute(handle, tensors, workspace.reserve(graph.workspace_bytes)), what);
    }
};

CudnnAttention::CudnnAttention(cudaStream_t stream, SumOrder sums) : stream_(stream), sums_(sums) {}
CudnnAttention::~CudnnAttention() = default;

std::string CudnnAttention::server() {
    const std::size_t version = cudnnGetVersion();
    return concat("attention by cuDNN ", version / 10000, ".", version / 100 % 100, ".", version % 100);
}

bool CudnnAttention::supports(const Tensor& qkv, const Attention& attention,
                              std::initializer_list<Tensor> others) {
    const auto aligned = [](const Tensor& tensor) {
        return reinterpret_cast<std::uintptr_t>(tensor.data()) % 16 == 0;
    };
    if (!cuda_scratch::cudnn_serves(qkv.type(), attention) || qkv.elements() == 0 || !aligned(qkv) ||
        !std::ranges::all_of(others, aligned))
        return false;
    if (!impl_)
        impl_ = std::make_unique<Impl>(stream_, sums_);
    // Both passes or none: a forward pass whose backward falls to another kernel would still be right, but
    // its statistics should come from one place.
    return impl_->graph(shapes_of(qkv, attention, Pass::forward)).usable &&
           impl_->graph(shapes_of(qkv, attention, Pass::backward)).usable;
}

void CudnnAttention::forward(const Tensor& qkv, const Attention& attention, const Tensor& out,
                             const Tensor& logsumexp, DeviceScratch& workspace) {
    const std::int64_t keys = attention.heads * attention.head_dim,
                       values = keys + attention.groups * attention.head_dim;
    std::unordered_map<std::int64_t, void*> tensors{{kQuery, qkv.data()},
                                                    {kKey, offset(qkv, keys)},
                                                    {kValue, offset(qkv, values)},
                                                    {kOut, out.data()},
                                                    {kStatistics, logsumexp.data()}};
    impl_->run(impl_->graph(shapes_of(qkv, attention, Pass::forward)), tensors, workspace,
               "attention_forward");
}

void CudnnAttention::input_gradient(const Tensor& grad_out, const Tensor& qkv, const Tensor& out,
                                    const Tensor& logsumexp, const Attention& attention,
                                    const Tensor& grad_qkv, DeviceScratch& workspace) {
    const std::int64_t keys = attention.heads * attention.head_dim,
                       values = keys + attention.groups * attention.head_dim;
    std::unordered_map<std::int64_t, void*> tensors{{kQuery, qkv.data()},
                                                    {kKey, offset(qkv, keys)},
                                                    {kValue, offset(qkv, values)},
                                                    {kOut, out.data()},
                                                    {kStatistics, logsumexp.data()},
                                                    {kGradOut, grad_out.data()},
                                                    {kGradQuery, grad_qkv.data()},
                                                    {kGradKey, offset(grad_qkv, keys)},
                                                    {kGradValue, offset(grad_qkv, values)}};
    impl_->run(impl_->graph(shapes_of(qkv, attention, Pass::backward)), tensors, workspace,
               "attention_input_gradient");
}

#else

struct CudnnAttention::Impl {};
CudnnAttention::CudnnAttention(cudaStream_t stream, SumOrder sums) : stream_(stream), sums_(sums) {}
CudnnAttention::~CudnnAttention() = default;
std::string CudnnAttention::server() {
    return "attention by own kernels (built without cudnn-frontend: slower)";
}
bool CudnnAttention::supports(const Tensor&, const Attention&, std::initializer_list<Tensor>) {
    return false;
}
void CudnnAttention::forward(const Tensor&, const Attention&, const Tensor&, const Tensor&, DeviceScratch&) {
    throw Error(ErrorCategory::internal, "this build has no cudnn-frontend");
}
void CudnnAttention::input_gradient(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                    const Attention&, const Tensor&, DeviceScratch&) {
    throw Error(ErrorCategory::internal, "this build has no cudnn-frontend");
}

#endif

} // namespace trireme::backend
