// Reads safetensors. The header is checked as a whole before anything is read by it: what it says about
// places must cover the file exactly once.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <simdjson.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "trireme/base/error.hpp"
#include "trireme/base/file.hpp"
#include "trireme/storage/safetensors.hpp"

namespace trireme::storage {
namespace {

using simdjson::dom::element;

constexpr std::uint64_t kLargestHeader = 100'000'000; // the format's own limit
constexpr const char* kMetadata = "__metadata__";

// Bits of an element of every type that the format names; 0: no such type.
std::int64_t bits_of(std::string_view type) {
    constexpr std::pair<std::string_view, std::int64_t> kTypes[] = {
        {"BOOL", 8}, {"U8", 8},   {"I8", 8},    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"I16", 16},
        {"U16", 16}, {"F16", 16}, {"BF16", 16}, {"I32", 32},    {"U32", 32},    {"F32", 32},
        {"C64", 64}, {"F64", 64}, {"I64", 64},  {"F8_E8M0", 8}, {"U64", 64}};
    for (const auto& [known, bits] : kTypes)
        if (known == type)
            return bits;
    return 0;
}

FloatType float_type(std::string_view type) {
    for (const FloatType known : {FloatType::f16, FloatType::bf16, FloatType::f32, FloatType::f64})
        if (name(known) == type)
            return known;
    return FloatType::other;
}

} // namespace

struct SafetensorsReader::Impl {
    std::filesystem::path path;
    int descriptor = -1;
    std::int64_t data_begin = 0, data_bytes = 0;
    std::map<std::string, SafeTensor> tensors;

    explicit Impl(std::filesystem::path of) : path(std::move(of)) {}
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;
    ~Impl() {
        if (descriptor >= 0)
            ::close(descriptor);
    }

    [[noreturn]] void refuse(const std::string& why) const {
        throw Error(ErrorCategory::checkpoint, concat(path.string(), ": ", why),
                    {"it is read as a safetensors file", "try: download or export the file again"});
    }

    void read_at(std::int64_t offset, std::span<std::byte> bytes) const {
        while (!bytes.empty()) {
            const ssize_t got = ::pread(descriptor, bytes.data(), bytes.size(), offset);
            if (got < 0 && errno == EINTR)
                continue;
            if (got < 0)
                throw Error(ErrorCategory::checkpoint,
                            concat("cannot read ", path.string(), ": ", system_reason()));
            if (got == 0)
                refuse("cut short while it was read");
            offset += got;
            bytes = bytes.subspan(static_cast<std::size_t>(got));
        }
    }

    void open() {
        descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
        struct stat facts {};
        if (descriptor < 0 || ::fstat(descriptor, &facts) != 0)
            throw Error(
                ErrorCategory::checkpoint, concat("cannot open ", path.string(), ": ", system_reason()),
                {"it is one of the files of a model", "try: download or export all files of it again"});
        if (!S_ISREG(facts.st_mode))
            refuse("not a file");
        const auto size = static_cast<std::uint64_t>(facts.st_size);
        std::uint64_t header_bytes = 0;
        if (size < sizeof header_bytes)
            refuse(concat("too short: ", size, " bytes"));
        read_at(0, std::as_writable_bytes(std::span(&header_bytes, 1)));
        if (header_bytes > kLargestHeader || header_bytes > size - sizeof header_bytes)
            refuse(concat("damaged or cut short: a header of ", header_bytes, " bytes in a file of ", size));
        std::string header(static_cast<std::size_t>(header_bytes), '\0');
        read_at(sizeof header_bytes, std::as_writable_bytes(std::span(header.data(), header.size())));
        data_begin = static_cast<std::int64_t>(sizeof header_bytes + header_bytes);
        data_bytes = static_cast<std::int64_t>(size) - data_begin;
        parse(header);
        check_cover();
    }

    void parse(const std::string& header) {
        simdjson::dom::parser parser;
        element root;
        if (const auto error = parser.parse(header).get(root))
            refuse(concat("its header is not JSON: ", simdjson::error_message(error)));
        simdjson::dom::object object;
        if (root.get(object))
            refuse("its header is not an object of tensors");
        for (const auto& [key, value] : object)
            if (key != kMetadata && !tensors.emplace(std::string(key), tensor(key, value)).second)
                refuse(concat("tensor ", key, " occurs twice"));
    }

    SafeTensor tensor(std::string_view key, const element& value) const {
        std::string_view type;
        simdjson::dom::array shape, places;
        if (value["dtype"].get(type) || value["shape"].get(shape) || value["data_offsets"].get(places))
            refuse(concat("tensor ", key, " lacks dtype, shape or data_offsets"));
        SafeTensor result;
        result.type = float_type(type);
        std::int64_t bits = bits_of(type);
        if (bits == 0)
            refuse(concat("tensor ", key, " has the unknown type ", type));
        for (const element extent_value : shape) {
            std::int64_t extent = 0;
            if (extent_value.get(extent) || extent < 0 ||
                (extent > 0 && bits > std::numeric_limits<std::int64_t>::max() / extent))
                refuse(concat("tensor ", key, " has an extent that cannot be"));
            result.shape.push_back(extent);
            bits *= extent;
        }
        std::int64_t place[2] = {};
        if (places.size() != 2 || places.at(0).get(place[0]) || places.at(1).get(place[1]) || place[0] < 0 ||
            place[1] < place[0] || place[1] > data_bytes)
            refuse(concat("damaged or cut short: tensor ", key, " lies outside of the file"));
        result.begin = place[0];
        result.end = place[1];
        if (result.end - result.begin != bits / 8)
            refuse(concat("tensor ", key, " has ", result.end - result.begin, " bytes, but its shape ",
                          bits / 8));
        return result;
    }

    // Every byte after the header belongs to one tensor.
    void check_cover() const {
        std::vector<std::pair<std::int64_t, std::int64_t>> places;
        for (const auto& [key, value] : tensors)
            places.emplace_back(value.begin, value.end);
        std::ranges::sort(places);
        std::int64_t covered = 0;
        for (const auto& [begin, end] : places) {
            if (begin != covered)
                refuse(begin < covered ? concat("tensors overlap at byte ", begin)
                                       : concat("no tensor has the bytes from ", covered, " to ", begin));
            covered = end;
        }
        if (covered != data_bytes)
            refuse(concat("no tensor has its last ", data_bytes - covered, " bytes"));
    }
};

std::int64_t SafeTensor::elements() const {
    return (end - begin) / size_bytes(type);
}

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path)
    : impl_(std::make_unique<Impl>(path)) {
    impl_->open();
}
SafetensorsReader::SafetensorsReader(SafetensorsReader&&) noexcept = default;
SafetensorsReader& SafetensorsReader::operator=(SafetensorsReader&&) noexcept = default;
SafetensorsReader::~SafetensorsReader() = default;

const std::filesystem::path& SafetensorsReader::path() const {
    return impl_->path;
}
const std::map<std::string, SafeTensor>& SafetensorsReader::tensors() const {
    return impl_->tensors;
}

void SafetensorsReader::read(const SafeTensor& tensor, std::int64_t first, std::span<std::byte> bytes) const {
    const std::int64_t begin = tensor.begin + first * size_bytes(tensor.type);
    TRIREME_ASSERT(first >= 0 && begin + static_cast<std::int64_t>(bytes.size()) <= tensor.end,
                   "elements outside of a tensor");
    impl_->read_at(impl_->data_begin + begin, bytes);
}

} // namespace trireme::storage
