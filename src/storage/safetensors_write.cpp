// Writes safetensors through a temporary file that is renamed when it is whole.

#include "trireme/base/error.hpp"
#include "trireme/base/json.hpp"
#include "trireme/base/output_file.hpp"
#include "trireme/base/sizes.hpp"
#include "trireme/storage/safetensors.hpp"
#include "trireme/topology/box.hpp"

namespace trireme::storage {

struct SafetensorsWriter::Impl {
    OutputFile file;
    std::int64_t bytes = 0; // that the file will have
};

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::span<const Declared> tensors)
    : impl_(new Impl{OutputFile(path), 0}) {
    std::string header = "{\"__metadata__\":{\"format\":\"pt\"}"; // transformers asks for it
    std::int64_t begin = 0;
    for (const Declared& tensor : tensors) {
        const std::int64_t end =
            begin + topology::Box::whole(tensor.shape).elements() * size_bytes(tensor.type);
        std::string shape;
        for (const std::int64_t extent : tensor.shape)
            shape += concat(shape.empty() ? "" : ",", extent);
        header += concat(",", json_string(tensor.name), ":{\"dtype\":\"", storage::name(tensor.type),
                         "\",\"shape\":[", shape, "],\"data_offsets\":[", begin, ",", end, "]}");
        begin = end;
    }
    header += "}";
    header.resize(static_cast<std::size_t>(round_up(static_cast<std::int64_t>(header.size()), 8)),
                  ' '); // tensors begin at a multiple of 8 bytes
    impl_->file.write_value(static_cast<std::uint64_t>(header.size()));
    impl_->file.write(header);
    impl_->bytes = static_cast<std::int64_t>(sizeof(std::uint64_t) + header.size()) + begin;
}
SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter& SafetensorsWriter::operator=(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
    impl_->file.write(bytes);
}

void SafetensorsWriter::publish() {
    TRIREME_ASSERT(impl_->file.bytes() == impl_->bytes, impl_->file.bytes(), " bytes written of ",
                   impl_->bytes, " declared");
    impl_->file.sync();
    impl_->file.publish();
}

} // namespace trireme::storage
