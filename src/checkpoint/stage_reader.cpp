// HDF5 says where a dataset lies; its elements are read from there directly.
#include "stage_reader.hpp"

#include "names.hpp"
#include "trireme/storage/pieces.hpp"

namespace trireme::checkpoint {

StageReader::OpenFile& StageReader::file(std::int64_t stage) {
    auto found = files_.find(stage);
    if (found == files_.end()) {
        const std::filesystem::path path = checkpoint_ / stage_name(stage);
        OpenFile opened{storage::File::open_alone(path),
                        storage::DirectFile(path, storage::DirectFile::Mode::read)};
        found = files_.emplace(stage, std::move(opened)).first;
    }
    return found->second;
}

const storage::Place& StageReader::place(std::size_t slot) {
    const auto found = places_.find(slot);
    if (found != places_.end())
        return found->second;
    const TensorEntry& tensor = index_.contents.tensor(slot);
    storage::Place place = file(tensor.stage).hdf5.place(index_.contents.dataset(slot));
    const std::optional<DType> type = index_.contents.group(slot).type;
    if (place.shape != tensor.shape || (type && place.type != *type))
        throw Error(ErrorCategory::checkpoint,
                    concat(index_.contents.dataset(slot), " of ",
                           (checkpoint_ / stage_name(tensor.stage)).string(), " is not what ", kIndexFile,
                           " says"),
                    {concat("it is ", name(place.type), " ", Shape(place.shape).text(), ", expected ",
                            type ? concat(name(*type), " ") : "", Shape(tensor.shape).text()),
                     "the file belongs to another checkpoint, or is damaged",
                     "try: an earlier checkpoint (--ckpt-step), or a copy of this one"});
    return places_.emplace(slot, std::move(place)).first->second;
}

void StageReader::require_within_file(std::size_t slot) {
    const storage::Place& where = place(slot);
    const storage::DirectFile& direct = file(index_.contents.tensor(slot).stage).direct;
    if (const std::int64_t size = direct.size(); size < where.end())
        throw Error(ErrorCategory::checkpoint,
                    concat(direct.path().string(), " is cut short: it has ", size, " bytes, ",
                           index_.contents.dataset(slot), " ends at ", where.end()));
}

void StageReader::read(std::size_t slot, const topology::Box& box, std::span<std::byte> elements) {
    const storage::Place& from = place(slot);
    const std::int64_t size = size_bytes(from.type);
    storage::DirectFile& direct = file(index_.contents.tensor(slot).stage).direct;
    for (const storage::BoxPiece& piece : storage::cut(box, kCacheBytes / size)) {
        const std::span<std::byte> part =
            elements.subspan(static_cast<std::size_t>(piece.first * size),
                             static_cast<std::size_t>(piece.box.elements() * size));
        direct.read(from, piece.box, part);
        sums_.add(slot, piece.box, part, from.type);
    }
}

} // namespace trireme::checkpoint
