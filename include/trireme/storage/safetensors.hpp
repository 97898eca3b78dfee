// Files of the safetensors format: 8 bytes of length, that many bytes of JSON that name each tensor with
// type, shape and place, then the bytes of the tensors, without gaps. Read and written by parts, so that no
// tensor need fit into memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::storage {

// Float types in a file; others (masks, counts) are `other`: listed, but not read.
enum class FloatType : std::uint8_t { f16, bf16, f32, f64, other };

std::string_view name(FloatType type); // "F16"; "?" for other
std::int64_t size_bytes(FloatType type);

struct SafeTensor {
    FloatType type = FloatType::f32;
    std::vector<std::int64_t> shape; // no axes: a number
    std::int64_t begin = 0, end = 0; // bytes, from the first tensor's on
    std::int64_t elements() const;
};

class SafetensorsReader {
  public:
    // Reads and checks the header. Throws Error (checkpoint): not such a file, cut short, tensors that
    // overlap, leave gaps or do not have the bytes of their shape.
    explicit SafetensorsReader(const std::filesystem::path& path);
    SafetensorsReader(SafetensorsReader&&) noexcept;
    SafetensorsReader& operator=(SafetensorsReader&&) noexcept;
    ~SafetensorsReader();

    const std::filesystem::path& path() const;
    const std::map<std::string, SafeTensor>& tensors() const;
    // Elements [first, first + bytes.size() / size of the type) of a tensor, as they stand in the file.
    void read(const SafeTensor& tensor, std::int64_t first, std::span<std::byte> bytes) const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// Writes a file from front to back: the tensors are declared first, then their bytes follow in that order.
class SafetensorsWriter {
  public:
    struct Declared {
        std::string name;
        FloatType type;
        std::vector<std::int64_t> shape;
    };
    SafetensorsWriter(const std::filesystem::path& path, std::span<const Declared> tensors);
    SafetensorsWriter(SafetensorsWriter&&) noexcept;
    SafetensorsWriter& operator=(SafetensorsWriter&&) noexcept;
    ~SafetensorsWriter(); // without publish() nothing is left

    void write(std::span<const std::byte> bytes);
    // Complete, on disk, under its name. Throws Error (output).
    void publish();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// Elements of one type as another, rounded to nearest even where it is narrower; a type into itself keeps
// every bit. Spans are of the same number of elements.
void convert(std::span<const std::byte> from, FloatType from_type, std::span<std::byte> to,
             FloatType to_type);

} // namespace trireme::storage
