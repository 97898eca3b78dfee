// Checks of tables that tokens and positions look up.
#include "backend/ops/check.hpp"

namespace trireme::backend {

using namespace checks;

void Operations::embedding_forward(const Tensor& tokens, const Tensor& table, std::int64_t first_row,
                                   Tensor out) {
    Check("embedding_forward", {{"tokens", tokens}, {"table", table}, {"out", out}})
        .defined()
        .type(tokens, DType::i32, kTokenType)
        .type(out, table.type(), kOneType)
        .that(table.shape().rank() == 2 && columns(out) == columns(table) && rows(out) == tokens.elements(),
              "tokens [T, B], table [V, C], out [T, B, C]");
    do_embedding_forward(tokens, table, first_row, out);
}

void Operations::embedding_weight_gradient(const Tensor& tokens, const Tensor& grad_out,
                                           std::int64_t first_row, Tensor grad_table) {
    Check("embedding_weight_gradient",
          {{"tokens", tokens}, {"grad_out", grad_out}, {"grad_table", grad_table}})
        .defined()
        .type(tokens, DType::i32, kTokenType)
        .type(grad_table, statistics_type(grad_out.type()), kMainType)
        .that(grad_table.shape().rank() == 2 && columns(grad_out) == columns(grad_table) &&
                  rows(grad_out) == tokens.elements(),
              "tokens [T, B], grad_out [T, B, C], grad_table [V, C]");
    do_embedding_weight_gradient(tokens, grad_out, first_row, grad_table);
}

void Operations::position_forward(const Tensor& table, std::int64_t first_position, Tensor x) {
    Check("position_forward", {{"table", table}, {"x", x}})
        .defined()
        .type(x, table.type(), kOneType)
        .that(x.shape().rank() == 3 && table.shape().rank() == 2 && columns(x) == columns(table),
              "table [P, C], x [T, B, C]")
        .that(first_position >= 0 && first_position + x.shape()[0] <= table.shape()[0],
              "positions first_position ... first_position + T - 1 are rows of the table");
    do_position_forward(table, first_position, x);
}

void Operations::position_weight_gradient(const Tensor& grad_out, std::int64_t first_position,
                                          Tensor grad_table) {
    Check("position_weight_gradient", {{"grad_out", grad_out}, {"grad_table", grad_table}})
        .defined()
        .type(grad_table, statistics_type(grad_out.type()), kMainType)
        .that(grad_out.shape().rank() == 3 && grad_table.shape().rank() == 2 &&
                  columns(grad_out) == columns(grad_table),
              "grad_out [T, B, C], grad_table [P, C]")
        .that(first_position >= 0 && first_position + grad_out.shape()[0] <= grad_table.shape()[0],
              "positions first_position ... first_position + T - 1 are rows of the table");
    do_position_weight_gradient(grad_out, first_position, grad_table);
}

void Operations::position_lookup_forward(const Tensor& table, const Tensor& positions, Tensor x) {
    Check("position_lookup_forward", {{"table", table}, {"positions", positions}, {"x", x}})
        .defined()
        .type(x, table.type(), kOneType)
        .type(positions, DType::i32, kPositionType)
        .that(table.shape().rank() == 2 && columns(x) == columns(table) && rows(x) == positions.elements(),
              "table [P, C], positions [T, B], x [T, B, C]");
    do_position_lookup_forward(table, positions, x);
}

void Operations::position_lookup_weight_gradient(const Tensor& grad_out, const Tensor& positions,
                                                 Tensor grad_table) {
    Check("position_lookup_weight_gradient",
          {{"grad_out", grad_out}, {"positions", positions}, {"grad_table", grad_table}})
        .defined()
        .type(grad_table, statistics_type(grad_out.type()), kMainType)
        .type(positions, DType::i32, kPositionType)
        .that(grad_table.shape().rank() == 2 && columns(grad_out) == columns(grad_table) &&
                  rows(grad_out) == positions.elements(),
              "grad_out [T, B, C], positions [T, B], grad_table [P, C]");
    do_position_lookup_weight_gradient(grad_out, positions, grad_table);
}

} // namespace trireme::backend
