// y = x W^T + bias and its gradients as matrix products; the bias is added by the product's epilogue, and
// weight gradients are added to fp32 by its beta.
#include "backend/cuda/operations.hpp"

namespace trireme::backend {
namespace {

std::int64_t columns(const Tensor& tensor) {
    return tensor.shape()[tensor.shape().rank() - 1];
}

// y = x weight^T + bias
Product forward_product(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y) {
    Product product;
    product.k = columns(x);
    product.n = columns(y);
    product.m = y.elements() / std::max<std::int64_t>(1, product.n);
    product.transpose_b = Transposed::yes;
    product.a = x;
    product.b = weight;
    product.c = y;
    product.bias = bias;
    return product;
}

} // namespace

void CudaOperations::do_linear_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor y) {
    gemm_.multiply(forward_product(x, weight, bias, y));
}

void CudaOperations::do_linear_input_gradient(const Tensor& grad_y, const Tensor& weight, Tensor grad_x) {
    Product product;
    product.k = columns(grad_y);
    product.n = columns(grad_x);
    product.m = grad_x.elements() / std::max<std::int64_t>(1, product.n);
    product.a = grad_y;
    product.b = weight;
    product.c = grad_x;
    gemm_.multiply(product);
}

// By the product's epilogue, which saves two passes over the gradient. The forward pass has no such override:
// with two results to store the epilogue was slower than a kernel of its own (H200: 0.69 against 0.66 ms at
// 65536 x 3072 x 768).
void CudaOperations::do_linear_gelu_input_gradient(const Tensor& grad_y, const Tensor& weight,
                                                   const Tensor& inner, Tensor grad_inner) {
    const bool fits = inner.type() == DType::bf16 && columns(inner) % 8 == 0 &&
                      reinterpret_cast<std::uintptr_t>(inner.data()) % 16 == 0;
    if (!fits)
        return Operations::do_linear_gelu_input_gradient(grad_y, weight, inner, grad_inner);
    Product product;
    product.k = columns(grad_y);
    product.n = columns(grad_inner);
    product.m = grad_inner.elements() / std::max<std::int64_t>(1, product.n);
    product.a = grad_y;
    product.b = weight;
    product.c = grad_inner;
    product.epilogue = Epilogue::gelu_gradient;
    product.aux = inner;
    gemm_.multiply(product);
}

void CudaOperations::do_linear_weight_gradient(const Tensor& x, const Tensor& grad_y, Tensor grad_weight,
                                               GradWrite write) {
    Product product;
    product.m = columns(grad_y);
    product.n = columns(x);
    product.k = x.elements() / std::max<std::int64_t>(1, product.n);
    product.transpose_a = Transposed::yes;
    product.a = grad_y;
    product.b = x;
    product.c = grad_weight;
    product.beta = write == GradWrite::accumulate ? 1.0F : 0.0F;
    if (product.k > 0)
        gemm_.multiply(product);
    else if (write == GradWrite::overwrite)
        do_fill(grad_weight, 0);
}

void CudaOperations::do_linear_residual_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                                const Tensor& residual, Tensor y) {
    Product product = forward_product(x, weight, bias, y);
    product.addend = residual;
    if (!gemm_.try_multiply(product))
        Operations::do_linear_residual_forward(x, weight, bias, residual, y);
}

} // namespace trireme::backend
