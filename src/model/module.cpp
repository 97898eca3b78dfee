// The norm of the model's kind.
#include "module.hpp"

namespace trireme::model {

void Norm::bind(const Parameters& parameters, const std::string& name, const StageSetup& setup,
                backend::Backend& backend) {
    rms_ = setup.config.normalisation == catalogue::Normalisation::rms_norm;
    epsilon_ = setup.config.norm_epsilon;
    backend_ = &backend;
    module_ = bind_module(parameters, name, Shape{setup.config.hidden}, rms_ ? HasBias::no : HasBias::yes);
}

void Norm::forward(const Tensor& x, Tensor y, Tensor mean, Tensor rstd) const {
    if (rms_)
        backend_->compute().rms_norm_forward(x, module_.weight, epsilon_, y, rstd);
    else
        backend_->compute().layer_norm_forward(x, module_.weight, module_.bias, epsilon_, y, mean, rstd);
}

void Norm::input_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                          Tensor grad_x, backend::GradWrite write) const {
    if (rms_)
        backend_->compute().rms_norm_input_gradient(grad_y, x, module_.weight, rstd, grad_x, write);
    else
        backend_->compute().layer_norm_input_gradient(grad_y, x, module_.weight, mean, rstd, grad_x, write);
}

void Norm::weight_gradient(const Tensor& grad_y, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                           backend::GradWrite write) const {
    if (rms_)
        backend_->compute().rms_norm_weight_gradient(grad_y, x, rstd, module_.grad_weight, write);
    else
        backend_->compute().layer_norm_weight_gradient(grad_y, x, mean, rstd, module_.grad_weight,
                                                       module_.grad_bias, write);
}

void Norm::gradients(const Tensor& grad_y, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                     Tensor grad_x, backend::GradWrite write, backend::GradWrite weight_write) const {
    const backend::NormWeightGradients of_weights{module_.grad_weight, module_.grad_bias, weight_write};
    if (rms_)
        backend_->compute().rms_norm_gradients(grad_y, x, module_.weight, rstd, grad_x, write, of_weights);
    else
        backend_->compute().layer_norm_gradients(grad_y, x, module_.weight, mean, rstd, grad_x, write,
                                                 of_weights);
}

} // namespace trireme::model
