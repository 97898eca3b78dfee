// The gradient of a bias: the sum of grad_y over tokens.
#include "backend/cuda/column_sums.cuh"
#include "backend/cuda/operations.hpp"

namespace trireme::backend {
namespace {

template <class T, int N>
struct GradientTerms {
    const T* grad_y;
    std::int64_t width;
    __device__ void operator()(std::int64_t row, std::int64_t column, float (&to)[1][N]) const {
        load(grad_y + row * width + column, to[0]);
    }
};

} // namespace

void CudaOperations::do_bias_gradient(const Tensor& grad_y, Tensor grad_bias, GradWrite write) {
    dispatch("bias_gradient", grad_y.type(), [&](auto zero) {
        using T = decltype(zero);
        const std::int64_t width = columns(grad_y);
        dispatch_packs<T>(fits_packs<T>(width, grad_y), [&](auto n) {
            sum_columns<1, n>(stream_, scratch_, rows(grad_y), width,
                              GradientTerms<T, n>{data<T>(grad_y), width},
                              ColumnTargets<1>{{writable<float>(grad_bias)}}, write);
        });
    });
}

} // namespace trireme::backend
