// Checks of the loss over a part of the vocabulary.
#include "backend/ops/check.hpp"

namespace trireme::backend {

using namespace checks;

void Operations::cross_entropy_maximum(const Tensor& logits, std::int64_t valid_columns, Tensor maximum) {
    Check("cross_entropy_maximum", {{"logits", logits}, {"maximum", maximum}})
        .defined()
        .type(maximum, statistics_type(logits.type()), kStatType)
        .that(maximum.elements() == rows(logits), "logits [n, V], maximum [n]")
        .that(valid_columns >= 0 && valid_columns <= columns(logits), "valid_columns lies in [0, V]");
    do_cross_entropy_maximum(logits, valid_columns, maximum);
}

void Operations::cross_entropy_sums(const Tensor& logits, std::int64_t valid_columns, const Tensor& targets,
                                    std::int64_t first_row, const Tensor& maximum, Tensor sums) {
    Check("cross_entropy_sums",
          {{"logits", logits}, {"targets", targets}, {"maximum", maximum}, {"sums", sums}})
        .defined()
        .type(targets, DType::i32, kTokenType)
        .type(maximum, statistics_type(logits.type()), kStatType)
        .type(sums, statistics_type(logits.type()), kStatType)
        .that(targets.elements() == rows(logits) && maximum.elements() == rows(logits) &&
                  is_matrix(sums, 2, rows(logits)),
              "logits [n, V], targets [n], maximum [n], sums [2, n]")
        .that(valid_columns >= 0 && valid_columns <= columns(logits), "valid_columns lies in [0, V]");
    do_cross_entropy_sums(logits, valid_columns, targets, first_row, maximum, sums);
}

void Operations::cross_entropy_loss(const Tensor& sums, const Tensor& mask, Tensor loss) {
    Check("cross_entropy_loss", {{"sums", sums}, {"loss", loss}, {"mask", mask}})
        .defined(1)
        .type(loss, sums.type(), kStatType)
        .type(mask, sums.type(), kStatType)
        .that(is_matrix(sums, 2, columns(sums)) && loss.elements() == 1 &&
                  (!mask.defined() || mask.elements() == columns(sums)),
              "sums [2, n], mask [n], loss [1]");
    do_cross_entropy_loss(sums, mask, loss);
}

void Operations::cross_entropy_gradient(Tensor logits, std::int64_t valid_columns, const Tensor& targets,
                                        std::int64_t first_row, const Tensor& maximum, const Tensor& sums,
                                        const Tensor& mask, double factor) {
    Check("cross_entropy_gradient",
          {{"logits", logits}, {"targets", targets}, {"maximum", maximum}, {"sums", sums}, {"mask", mask}})
        .defined(1)
        .type(targets, DType::i32, kTokenType)
        .type(maximum, statistics_type(logits.type()), kStatType)
        .type(sums, statistics_type(logits.type()), kStatType)
        .type(mask, statistics_type(logits.type()), kStatType)
        .that(targets.elements() == rows(logits) && maximum.elements() == rows(logits) &&
                  is_matrix(sums, 2, rows(logits)) && (!mask.defined() || mask.elements() == rows(logits)),
              "logits [n, V], targets [n], maximum [n], sums [2, n], mask [n]")
        .that(valid_columns >= 0 && valid_columns <= columns(logits), "valid_columns lies in [0, V]");
    do_cross_entropy_gradient(logits, valid_columns, targets, first_row, maximum, sums, mask, factor);
}

void Operations::cross_entropy(Tensor logits, std::int64_t valid_columns, const Tensor& targets,
                               const Tensor& mask, double factor, Tensor maximum, Tensor sums, Tensor loss) {
    Check("cross_entropy", {{"logits", logits},
                            {"targets", targets},
                            {"maximum", maximum},
                            {"sums", sums},
                            {"loss", loss},
                            {"mask", mask}})
        .defined(1)
        .type(targets, DType::i32, kTokenType)
        .type(maximum, statistics_type(logits.type()), kStatType)
        .type(sums, statistics_type(logits.type()), kStatType)
        .type(loss, statistics_type(logits.type()), kStatType)
        .type(mask, statistics_type(logits.type()), kStatType)
        .that(targets.elements() == rows(logits) && maximum.elements() == rows(logits) &&
                  is_matrix(sums, 2, rows(logits)) && (!mask.defined() || mask.elements() == rows(logits)) &&
                  loss.elements() == 1,
              "logits [n, V], targets [n], maximum [n], sums [2, n], mask [n], loss [1]")
        .that(valid_columns >= 0 && valid_columns <= columns(logits), "valid_columns lies in [0, V]");
    do_cross_entropy(logits, valid_columns, targets, mask, factor, maximum, sums, loss);
}

} // namespace trireme::backend
