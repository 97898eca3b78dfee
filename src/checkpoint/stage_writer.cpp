// Laying out stage files and writing into them.
#include "stage_writer.hpp"

#include <algorithm>
#include <cstring>

#include "trireme/base/fault.hpp"
#include "trireme/storage/file.hpp"

namespace trireme::checkpoint {

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
        file.close();
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
    file_.write(place, box, elements);
    written_.push_back({slot, box, sums_.add(slot, box, elements, place.type)});
}

void StageWriter::finish(ReadBack read_back) {
    fault_point("save-sync");
    file_.sync();
    if (read_back == ReadBack::no)
        return;
    fault_point("save-read-back");
    file_.forget();
    SumTable again = contents_.empty_sums();
    std::vector<std::byte> elements;
    for (const Written& piece : written_) {
        const storage::Place& place = places_[piece.slot].value();
        elements.resize(static_cast<std::size_t>(piece.box.elements() * size_bytes(place.type)));
        file_.read(place, piece.box, elements);
        if (again.add(piece.slot, piece.box, elements, place.type) != piece.sum)
            throw Error(ErrorCategory::output,
                        concat("what was written is not what is read: ", contents_.dataset(piece.slot), " ",
                               piece.box.text(), " of ", file_.path().string()),
                        {"the file system or the disk loses data",
                         "try: another --save, and whoever runs the file system"});
    }
}

} // namespace trireme::checkpoint
