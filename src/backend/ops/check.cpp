// The message of a check that fails, and the check of what several operations take.
#include "backend/ops/check.hpp"

#include <string>
#include <vector>

namespace trireme::backend::checks {

void Check::refuse(std::string_view rule) const {
    std::vector<std::string> details;
    for (std::size_t i = 0; i < count_; ++i) {
        const auto& [label, tensor] = tensors_[i];
        details.push_back(tensor->defined()
                              ? concat(label, " ", tensor->shape().text(), " ", name(tensor->type()))
                              : concat(label, " undefined"));
    }
    throw Error(ErrorCategory::internal, concat(operation_, ": ", rule), std::move(details));
}

void check_dropout(const Check& check, const Dropout& dropout) {
    check.that(dropout.probability >= 0 && dropout.probability < 1, "the dropout probability lies in [0, 1)")
        .that(dropout.layer >= 0 && dropout.layer < 4096, "the layer of a dropout lies in [0, 4096)")
        .that(dropout.first_sample >= 0 && dropout.first_position >= 0, "dropout positions are not negative");
}

} // namespace trireme::backend::checks
