// Which attention: cuDNN's where it has one, else the own kernels: on the matrix unit for bf16 (dropout,
// documents), with Hopper's own instructions where the GPU and the build have them, plain ones for fp32 and
// other head sizes.
#include "backend/cuda/attention_kernels.hpp"
#include "backend/cuda/check.hpp"
#include "backend/cuda/operations.hpp"
#include "backend/cuda/scratch_needs.hpp"

namespace trireme::backend {

bool hopper_attention_supports(const Tensor& qkv, const Attention& attention,
                               std::initializer_list<Tensor> others) {
#ifdef TRIREME_HOPPER
    constexpr bool kBuilt = true;
#else
    constexpr bool kBuilt = false;
#endif
    static const bool is_hopper = [] {
        int device = 0, major = 0;
        check(cudaGetDevice(&device), "look-up of the GPU");
        check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
              "look-up of the GPU");
        return major == 9;
    }();
    return kBuilt && is_hopper && cuda_scratch::hopper_serves(qkv.type(), attention) &&
           matrix_attention_supports(qkv, attention, others);
}

void CudaOperations::do_attention_forward(const Tensor& qkv, const Attention& attention, Tensor out,
                                          Tensor logsumexp) {
    if (qkv.elements() == 0)
        return;
    if (cudnn_.supports(qkv, attention, {out}))
        cudnn_.forward(qkv, attention, out, logsumexp, scratch_);
    else if (hopper_attention_supports(qkv, attention, {out}))
        hopper_attention_forward(stream_, qkv, attention, out, logsumexp, scratch_);
    else if (matrix_attention_supports(qkv, attention, {out}))
        matrix_attention_forward(stream_, qkv, attention, out, logsumexp);
    else
        own_attention_forward(stream_, qkv, attention, out, logsumexp);
}

void CudaOperations::do_attention_input_gradient(const Tensor& grad_out, const Tensor& qkv, const Tensor& out,
                                                 const Tensor& logsumexp, const Attention& attention,
                                                 Tensor grad_qkv) {
    if (qkv.elements() == 0)
        return;
    if (cudnn_.supports(qkv, attention, {grad_out, out, grad_qkv}))
        cudnn_.input_gradient(grad_out, qkv, out, logsumexp, attention, grad_qkv, scratch_);
    else if (hopper_attention_supports(qkv, attention, {grad_out, out, grad_qkv}))
        hopper_attention_input_gradient(stream_, grad_out, qkv, out, logsumexp, attention, grad_qkv,
                                        scratch_);
    else if (matrix_attention_supports(qkv, attention, {grad_out, out, grad_qkv}))
        matrix_attention_input_gradient(stream_, grad_out, qkv, out, logsumexp, attention, grad_qkv,
                                        scratch_);
    else
        own_attention_input_gradient(stream_, grad_out, qkv, out, logsumexp, attention, grad_qkv, scratch_);
}

} // namespace trireme::backend
