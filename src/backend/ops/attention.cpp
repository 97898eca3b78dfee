// Checks of attention and of the rotary embedding before it.
#include "backend/ops/check.hpp"

namespace trireme::backend {

using namespace checks;

namespace {

void check_attention(const Check& check, const Attention& a, const Tensor& qkv, const Tensor& out,
                     const Tensor& logsumexp) {
    check.that(a.heads > 0 && a.groups > 0 && a.heads % a.groups == 0 && a.head_dim > 0,
               "heads is a multiple of groups, and all sizes are positive");
    check.that(qkv.shape().rank() == 4 && qkv.shape()[2] == a.heads + 2 * a.groups &&
                   qkv.shape()[3] == a.head_dim,
               "qkv is [T, B, H + 2 G, D]");
    const std::int64_t length = qkv.shape()[0], batch = qkv.shape()[1];
    check.that(out.shape() == Shape({length, batch, a.heads, a.head_dim}), "out is [T, B, H, D]");
    check.that(logsumexp.shape() == Shape({batch, a.heads, length}), "logsumexp is [B, H, T]");
    check.type(logsumexp, statistics_type(qkv.type()), kStatType).type(out, qkv.type(), kOneType);
    check_dropout(check, a.dropout);
    check.type(a.documents, DType::i32, kPositionType)
        .that(!a.documents.defined() ||
                  (a.documents.shape() == Shape({length, batch}) && a.causal == Causal::yes),
              "documents is [T, B] and goes with causal attention");
    check.that(a.first_head >= 0 && a.first_head + a.heads <= 65536, "global head numbers lie in [0, 65536)");
}

} // namespace

void Operations::rotary(Tensor qkv, std::int64_t heads, const Tensor& table, const Tensor& positions,
                        std::int64_t first_position, RotaryDirection direction) {
    const Check check("rotary", {{"qkv", qkv}, {"table", table}, {"positions", positions}});
    check.defined(1)
        .type(table, statistics_type(qkv.type()), kStatType)
        .type(positions, DType::i32, kPositionType)
        .that(qkv.shape().rank() == 4 && table.shape().rank() == 2, "qkv [T, B, H + 2 G, D], table [P, R]")
        .that(heads >= 0 && heads <= qkv.shape()[2], "at most the heads of qkv are turned")
        .that(columns(table) % 2 == 0 && columns(table) <= columns(qkv), "R is even and at most D");
    if (positions.defined())
        check.that(positions.elements() == qkv.shape()[0] * qkv.shape()[1], "positions [T, B]");
    else
        check.that(first_position >= 0 && first_position + qkv.shape()[0] <= table.shape()[0],
                   "positions first_position ... first_position + T - 1 are rows of the table");
    do_rotary(qkv, heads, table, positions, first_position, direction);
}

void Operations::attention_forward(const Tensor& qkv, const Attention& attention, Tensor out,
                                   Tensor logsumexp) {
    const Check check("attention_forward", {{"qkv", qkv}, {"out", out}, {"logsumexp", logsumexp}});
    check.defined();
    check_attention(check, attention, qkv, out, logsumexp);
    do_attention_forward(qkv, attention, out, logsumexp);
}

void Operations::attention_input_gradient(const Tensor& grad_out, const Tensor& qkv, const Tensor& out,
                                          const Tensor& logsumexp, const Attention& attention,
                                          Tensor grad_qkv) {
    const Check check("attention_input_gradient", {{"grad_out", grad_out},
                                                   {"qkv", qkv},
                                                   {"out", out},
                                                   {"logsumexp", logsumexp},
                                                   {"grad_qkv", grad_qkv}});
    check.defined();
    check_attention(check, attention, qkv, out, logsumexp);
    check.that(grad_out.shape() == out.shape() && grad_qkv.shape() == qkv.shape(),
               "gradients have the shapes of out and qkv");
    check.type(grad_out, qkv.type(), kOneType).type(grad_qkv, qkv.type(), kOneType);
    do_attention_input_gradient(grad_out, qkv, out, logsumexp, attention, grad_qkv);
}

} // namespace trireme::backend
