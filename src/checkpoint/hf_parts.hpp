// What export and import share: names of files, and moving the elements of a part between its own order and
// that of a file's tensor.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include "checkpoint/hf_tensors.hpp"

namespace trireme::checkpoint {

inline constexpr const char* kHfConfigFile = "config.json";
inline constexpr const char* kSafetensorsFile = "model.safetensors";
inline constexpr const char* kSafetensorsIndex = "model.safetensors.index.json";

enum class Direction { into_piece, out_of_piece };

// `packed`: the part's elements in the order of its box; `piece`: the run of the file's tensor that it is of;
// elements of `size` bytes.
inline void place(const SourcePart& part, std::span<std::byte> packed, std::span<std::byte> piece,
                  std::int64_t size, Direction direction) {
    const auto move = [&](std::int64_t from_packed, std::int64_t from_piece, std::int64_t count) {
        std::byte* const a = packed.data() + from_packed * size;
        std::byte* const b = piece.data() + from_piece * size;
        const auto bytes = static_cast<std::size_t>(count * size);
        if (direction == Direction::into_piece)
            std::memcpy(b, a, bytes);
        else
            std::memcpy(a, b, bytes);
    };
    for (std::int64_t row = 0; row < part.rows; ++row) {
        const std::int64_t packed_row = row * part.columns, piece_row = part.offset + row * part.row_step;
        if (part.column_step == 1) {
            move(packed_row, piece_row, part.columns);
            continue;
        }
        for (std::int64_t column = 0; column < part.columns; ++column)
            move(packed_row + column, piece_row + column * part.column_step, 1);
    }
}

} // namespace trireme::checkpoint
