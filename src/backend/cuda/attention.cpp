// Which attention: cuDNN's where it has one, else the own kernels: on the matrix unit for bf16 (dropout,
// documents), plain ones for fp32 and other head sizes.
#include "backend/cuda/attention_kernels.hpp"
#include "backend/cuda/operations.hpp"

namespace trireme::backend {

void CudaOperations::do_attention_forward(const Tensor& qkv, const Attention& attention, Tensor out,
                                          Tensor logsumexp) {
    if (qkv.elements() == 0)
        return;
    if (cudnn_.supports(qkv, attention, {out}))
        cudnn_.forward(qkv, attention, out, logsumexp, scratch_);
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
    else if (matrix_attention_supports(qkv, attention, {grad_out, out, grad_qkv}))
        matrix_attention_input_gradient(stream_, grad_out, qkv, out, logsumexp, attention, grad_qkv,
                                        scratch_);
    else
        own_attention_input_gradient(stream_, grad_out, qkv, out, logsumexp, attention, grad_qkv, scratch_);
}

} // namespace trireme::backend
