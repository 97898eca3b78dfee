// Moving parts of tensors between memory and datasets: the same number of calls on every rank, each far below
// 2 GiB.
#include <algorithm>
#include <exception>

#include "storage/file_impl.hpp"
#include "trireme/storage/pieces.hpp"

namespace trireme::storage {

namespace {

struct LocalPiece {
    topology::Box box;
    Tensor tensor; // its elements
};

// Wrong parts are our bug, but they show on one rank while the others wait: they are checked before the first
// transfer.
void check_parts(std::span<const Part> parts, const DatasetInfo& dataset, const std::string& name) {
    for (const Part& part : parts) {
        TRIREME_ASSERT(part.box.elements() == part.tensor.elements(), "box ", part.box.text(), " of ", name,
                       " with a tensor of ", part.tensor.shape().text());
        TRIREME_ASSERT(topology::intersect(part.box, topology::Box::whole(dataset.shape)) == part.box ||
                           part.box.empty(),
                       "box ", part.box.text(), " is not within ", name, " ",
                       topology::Box::whole(dataset.shape).text());
        const DType type = part.tensor.type();
        const bool both_float = (type == DType::f32 || type == DType::f64) &&
                                (dataset.type == DType::f32 || dataset.type == DType::f64);
        TRIREME_ASSERT(type == dataset.type || both_float, trireme::name(type), " for ", name, ", which is ",
                       trireme::name(dataset.type));
    }
}

std::vector<LocalPiece> cut_parts(std::span<const Part> parts, std::int64_t piece_bytes) {
    std::vector<LocalPiece> pieces;
    for (const Part& part : parts)
        for (BoxPiece& piece :
             cut(part.box, std::max<std::int64_t>(1, piece_bytes / size_bytes(part.tensor.type())))) {
            const std::int64_t count = piece.box.elements();
            pieces.push_back({std::move(piece.box), part.tensor.flat(piece.first, count)});
        }
    return pieces;
}

// One call on every rank: the given piece, or nothing.
void transfer(hid_t dataset, DType dataset_type, const LocalPiece* piece, Mode mode, hid_t properties,
              const Attempt& doing) {
    const Space file_space(H5Dget_space(dataset), doing);
    Space memory_space;
    void* data = nullptr;
    if (piece == nullptr) {
        check_hdf5(H5Sselect_none(file_space.get()), doing);
        const hsize_t one = 1;
        memory_space = Space(H5Screate_simple(1, &one, nullptr), doing);
        check_hdf5(H5Sselect_none(memory_space.get()), doing);
    } else {
        std::vector<hsize_t> start, count;
        for (const topology::Interval& axis : piece->box.axes) {
            start.push_back(static_cast<hsize_t>(axis.begin));
            count.push_back(static_cast<hsize_t>(axis.size()));
        }
        check_hdf5(H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(),
                                       nullptr),
                   doing);
        const auto elements = static_cast<hsize_t>(piece->tensor.elements());
        memory_space = Space(H5Screate_simple(1, &elements, nullptr), doing);
        data = piece->tensor.data();
    }
    const Type type = hdf5_type(piece == nullptr ? dataset_type : piece->tensor.type(), doing);
    if (mode == Mode::write)
        check_hdf5(H5Dwrite(dataset, type.get(), memory_space.get(), file_space.get(), properties, data),
                   doing);
    else
        check_hdf5(H5Dread(dataset, type.get(), memory_space.get(), file_space.get(), properties, data),
                   doing);
}

} // namespace

// Shared by write() and read(). A rank whose transfer failed goes on with empty ones, so that the others do
// not wait for it; the agreement at the end tells them.
void transfer_parts(File::Impl& file, const DatasetInfo& dataset_info, const std::string& name,
                    std::span<const Part> parts, Mode mode) {
    std::vector<LocalPiece> pieces;
    file.together("check of parts", [&] {
        check_parts(parts, dataset_info, name);
        pieces = cut_parts(parts, file.piece_bytes);
    });
    double most = static_cast<double>(pieces.size());
    file.group->all_reduce({&most, 1}, comm::ReduceOp::max);

    file.together(mode == Mode::write ? "parallel write" : "parallel read", [&] {
        const Attempt doing = file.attempt(mode == Mode::write ? "write" : "read", name);
        const Dataset dataset(H5Dopen2(file.handle.get(), name.c_str(), H5P_DEFAULT), doing);
        const Properties properties = file.transfer_properties(doing);
        std::exception_ptr failure;
        for (std::size_t i = 0; i < static_cast<std::size_t>(most); ++i) {
            try {
                transfer(dataset.get(), dataset_info.type,
                         i < pieces.size() && !failure ? &pieces[i] : nullptr, mode, properties.get(), doing);
            } catch (const Error&) {
                if (!failure)
                    failure = std::current_exception();
            }
        }
        if (failure)
            std::rethrow_exception(failure);
    });
}

void File::write(const std::string& name, std::span<const Part> parts) {
    transfer_parts(*impl_, info(name), name, parts, Mode::write);
}

void File::read(const std::string& name, std::span<const Part> parts) {
    transfer_parts(*impl_, info(name), name, parts, Mode::read);
}

} // namespace trireme::storage
