// Laying out stage files and writing into them.
#include "stage_writer.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "trireme/base/fault.hpp"
#include "trireme/storage/file.hpp"
#include "trireme/storage/pieces.hpp"

namespace trireme::checkpoint {
namespace {

constexpr std::int64_t kStartBytes = std::int64_t{32} << 20; // for the disk to begin with

template <class Byte>
std::span<Byte> part_of(std::span<Byte> elements, const storage::BoxPiece& piece, DType type) {
    return elements.subspan(static_cast<std::size_t>(piece.first * size_bytes(type)),
                            static_cast<std::size_t>(piece.box.elements() * size_bytes(type)));
}

} // namespace

// HDF5 is used by one rank alone, so a disk that gets full cannot leave ranks waiting for each other inside
// of it.
Places lay_out_stage(const std::filesystem::path& path, const Contents& contents, std::int64_t stage,
                     comm::HostGroup& group) {
    std::vector<std::int64_t> offsets(contents.slots(), -1);
    comm::agree(group, [&] {
        if (group.rank() != 0)
            return;
        storage::File file = storage::File::create_alone(path);
        std::int64_t end = 0;
        for (std::size_t slot = 0; slot < contents.slots(); ++slot)
            if (contents.tensor(slot).stage == stage) {
                file.create_dataset(contents.dataset(slot), contents.tensor(slot).shape,
                                    contents.group(slot).type.value());
                const storage::Place place = file.place(contents.dataset(slot));
                offsets[slot] = place.offset;
                end = std::max(end, place.end());
            }
        file.close(storage::Durability::later);
        fault_point("save-reserve");
        storage::DirectFile(path, storage::DirectFile::Mode::write).reserve(end);
    });
    const auto bytes = offsets.size() * sizeof offsets.front();
    const std::string shared =
        group.broadcast(std::string(reinterpret_cast<const char*>(offsets.data()), bytes), 0);
    std::memcpy(offsets.data(), shared.data(), bytes);
    Places places(contents.slots());
    for (std::size_t slot = 0; slot < contents.slots(); ++slot)
        if (offsets[slot] >= 0)
            places[slot] =
                storage::Place{offsets[slot], contents.tensor(slot).shape, contents.group(slot).type.value()};
    return places;
}

StageWriter::StageWriter(const std::filesystem::path& file, const Contents& contents, Places places)
    : file_(file, storage::DirectFile::Mode::write), contents_(contents), places_(std::move(places)),
      sums_(contents.empty_sums()) {}

void StageWriter::write(std::size_t slot, const topology::Box& box, std::span<const std::byte> elements) {
    fault_point("save-write");
    const storage::Place& place = places_[slot].value();
    std::uint64_t sum = 0;
    for (const storage::BoxPiece& piece : storage::cut(box, kCacheBytes / size_bytes(place.type))) {
        const std::span<const std::byte> part = part_of(elements, piece, place.type);
        sum += sums_.add(slot, piece.box, part, place.type);
        file_.write(place, piece.box, part);
    }
    written_.push_back({slot, box, sum});
    const topology::Interval extent = place.extent(box);
    waiting_ = waiting_.empty() ? extent
                                : topology::Interval{std::min(waiting_.begin, extent.begin),
                                                     std::max(waiting_.end, extent.end)};
    if (waiting_.size() >= kStartBytes)
        file_.start_writing(std::exchange(waiting_, {}));
}

void StageWriter::finish(ReadBack read_back, std::size_t threads) {
    fault_point("save-sync");
    file_.sync();
    if (read_back == ReadBack::no)
        return;
    fault_point("save-read-back");
    file_.forget();
    const std::unique_ptr<comm::HostGroup> alone = comm::make_self_host_group();
    std::vector<std::optional<Error>> failures(threads);
    const auto part = [&](std::size_t i) {
        const std::size_t begin = written_.size() * i / threads, end = written_.size() * (i + 1) / threads;
        failures[i] =
            comm::attempt(*alone, [&] { read_again(std::span(written_).subspan(begin, end - begin)); });
    };
    std::vector<std::thread> helpers;
    for (std::size_t i = 1; i < threads; ++i)
        helpers.emplace_back(part, i);
    part(0);
    for (std::thread& helper : helpers)
        helper.join();
    for (const std::optional<Error>& failure : failures)
        if (failure)
            throw Error(*failure);
}

// Through a descriptor of its own, so that the system sees neighbours being read and reads ahead.
void StageWriter::read_again(std::span<const Written> pieces) const {
    storage::DirectFile file(file_.path(), storage::DirectFile::Mode::write);
    std::vector<std::byte> buffer(static_cast<std::size_t>(kCacheBytes));
    for (const Written& piece : pieces)
        if (sum_in_file(file, piece, buffer) != piece.sum)
            throw Error(ErrorCategory::output,
                        concat("what was written is not what is read: ", contents_.dataset(piece.slot), " ",
                               piece.box.text(), " of ", file_.path().string()),
                        {"the file system or the disk loses data",
                         "try: another --save, and whoever runs the file system"});
}

std::uint64_t StageWriter::sum_in_file(storage::DirectFile& file, const Written& written,
                                       std::span<std::byte> buffer) const {
    const storage::Place& place = places_[written.slot].value();
    std::uint64_t sum = 0;
    for (storage::BoxPiece piece : storage::cut(written.box, kCacheBytes / size_bytes(place.type))) {
        piece.first = 0; // each into the same memory
        const std::span<std::byte> part = part_of(buffer, piece, place.type);
        file.read(place, piece.box, part);
        sum += sum_of_box(place.shape, piece.box, part, place.type);
    }
    return sum;
}

} // namespace trireme::checkpoint
