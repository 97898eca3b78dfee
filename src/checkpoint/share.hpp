// Who writes what: each element of the state once, whatever the layout.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "contents.hpp"
#include "trireme/checkpoint/checkpoint.hpp"

namespace trireme::checkpoint {

// A piece of a dataset and its elements in this rank's device memory, as in optimizer::StatePart.
struct Piece {
    std::size_t slot = 0;
    topology::Box box;
    Tensor tensor, rest;

    DType type() const { return rest.defined() ? DType::f32 : tensor.type(); } // in the file
    std::int64_t bytes() const { return tensor.elements() * size_bytes(type()); }
};

// Elements of pieces as they go into the file.
class Elements {
  public:
    explicit Elements(backend::Backend& backend) : backend_(backend) {}
    // Copies them to `host` (piece.bytes()).
    void copy(const Piece& piece, std::span<std::byte> host);
    // Where they lie on the host: in place if they can be used there, otherwise copied to memory that the
    // next call writes over.
    std::span<const std::byte> on_host(const Piece& piece);

  private:
    backend::Backend& backend_;
    std::vector<std::byte> staging_, halves_;
};

// The pieces that this rank writes, in the order of slots, none larger than `piece_bytes`. What several ranks
// hold alike (data ranks; tensor ranks of what is not cut) they share out among themselves, row by row, so
// that all write.
std::vector<Piece> share_of_this_rank(const Model& model, const Contents& contents, std::int64_t piece_bytes);

} // namespace trireme::checkpoint
