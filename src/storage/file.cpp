// Opening, closing and describing files; texts, numbers and links. Transfers of tensors are in transfer.cpp.
#include "trireme/storage/file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <fcntl.h>
#include <optional>
#include <unistd.h>
#include <utility>

#include "comm/mpi/check.hpp"
#include "storage/file_impl.hpp"
#include "trireme/base/file.hpp"

namespace trireme::storage {

namespace {

// Hints for ROMIO: writing with holes must not read, lock and rewrite what other ranks own.
class Info {
  public:
    Info() {
        comm::check_mpi(MPI_Info_create(&info_), "creation of hints", "file's ranks");
        comm::check_mpi(MPI_Info_set(info_, "romio_ds_write", "disable"), "creation of hints",
                        "file's ranks");
    }
    ~Info() { MPI_Info_free(&info_); }
    Info(const Info&) = delete;
    Info& operator=(const Info&) = delete;
    MPI_Info get() const { return info_; }

  private:
    MPI_Info info_ = MPI_INFO_NULL;
};

Properties access_properties(comm::HostGroup& group, const Attempt& doing) {
    Properties access(H5Pcreate(H5P_FILE_ACCESS), doing);
    if (group.size() > 1) {
        const MPI_Comm comm = comm::mpi_comm(group);
        TRIREME_ASSERT(comm != MPI_COMM_NULL, "a file of a group that is not of MPI");
        const Info hints;
        check_hdf5(H5Pset_fapl_mpio(access.get(), comm, hints.get()), doing);
        check_hdf5(H5Pset_coll_metadata_write(access.get(), true), doing);
        check_hdf5(H5Pset_all_coll_metadata_ops(access.get(), true), doing);
    }
    // Groups with any number of members and no limits of 1.6; readable since HDF5 1.8.
    check_hdf5(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_LATEST), doing);
    return access;
}

Properties link_properties(const Attempt& doing) {
    Properties creation(H5Pcreate(H5P_LINK_CREATE), doing);
    check_hdf5(H5Pset_create_intermediate_group(creation.get(), 1), doing);
    check_hdf5(H5Pset_char_encoding(creation.get(), H5T_CSET_UTF8), doing);
    return creation;
}

// Space for the whole dataset at once, without writing a fill value first.
Properties dataset_properties(const Attempt& doing) {
    Properties creation(H5Pcreate(H5P_DATASET_CREATE), doing);
    check_hdf5(H5Pset_layout(creation.get(), H5D_CONTIGUOUS), doing);
    check_hdf5(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), doing);
    check_hdf5(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), doing);
    return creation;
}

void sync_file(const std::filesystem::path& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const bool synced = file >= 0 && ::fsync(file) == 0;
    const std::string reason = synced ? "" : system_reason();
    if (file >= 0)
        ::close(file);
    if (!synced)
        throw Error(ErrorCategory::output, concat("cannot sync ", path.string(), ": ", reason));
}

DatasetInfo describe(hid_t dataset, const Attempt& doing) {
    DatasetInfo found;
    const Space space(H5Dget_space(dataset), doing);
    std::vector<hsize_t> extents(
        static_cast<std::size_t>(check_hdf5(H5Sget_simple_extent_ndims(space.get()), doing)));
    check_hdf5(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr), doing);
    found.shape.assign(extents.begin(), extents.end());
    found.type = element_type(dataset, doing);
    return found;
}

herr_t collect_name(hid_t, const char* name, const H5L_info_t*, void* list) noexcept {
    static_cast<std::vector<std::string>*>(list)->emplace_back(name);
    return 0;
}

} // namespace

File::Impl::Impl(std::filesystem::path file_path, Mode file_mode, comm::HostGroup* of_group)
    : path(std::move(file_path)), mode(file_mode),
      own_group(of_group == nullptr ? comm::make_self_host_group() : nullptr),
      group(of_group == nullptr ? own_group.get() : of_group),
      wait_name(comm::lasting_name(concat("file ", path.filename().string()))),
      exceptions(std::uncaught_exceptions()) {
    together(mode == Mode::write ? "creation" : "opening", [&] {
        const Attempt doing = attempt(mode == Mode::write ? "create" : "open", "");
        const Properties access = access_properties(*group, doing);
        handle =
            FileHandle(mode == Mode::write ? H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get())
                                           : H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()),
                       doing);
    });
}

// Closing a shared file waits for the other ranks. After a failure of this file they all come here; when
// another exception is on its way they may not, so the file is left as it is. What a failed writer leaves is
// of no use and goes first: HDF5 cannot even close a file while the disk is full.
File::Impl::~Impl() {
    if (handle.get() < 0)
        return;
    try {
        const bool alone_here = parallel() && std::uncaught_exceptions() > exceptions && !failed;
        if (!alone_here && failed && mode == Mode::write) {
            if (group->rank() == 0 && ::truncate(path.c_str(), 0) != 0 && errno != ENOENT)
                comm::give_up_finalising();
            group->barrier();
        }
        const auto lock = hdf5_lock();
        const hid_t file = handle.release();
        if (alone_here || H5Fclose(file) < 0)
            comm::give_up_finalising();
    } catch (const Error&) {
        comm::give_up_finalising();
    }
}

Attempt File::Impl::attempt(const char* tried, const std::string& name) const {
    return {mode == Mode::write ? ErrorCategory::output : ErrorCategory::checkpoint,
            concat("cannot ", tried, " ", name, name.empty() ? "" : " of ", path.string())};
}

void File::Impl::together(const char* what, const std::function<void()>& work) const {
    failed = true; // unless agreed otherwise
    comm::agree(*group, [&] {
        const auto lock = hdf5_lock();
        std::optional<comm::WaitScope> waiting;
        if (parallel())
            waiting.emplace(what, wait_name);
        work();
    });
    failed = false;
}

Properties File::Impl::transfer_properties(const Attempt& doing) const {
    Properties transfer(H5Pcreate(H5P_DATASET_XFER), doing);
    if (parallel())
        check_hdf5(H5Pset_dxpl_mpio(transfer.get(), H5FD_MPIO_COLLECTIVE), doing);
    return transfer;
}

// Each group on the way must be there before HDF5 may be asked for the next.
bool File::Impl::exists(const std::string& name) const {
    const Attempt doing = attempt("look up", name);
    for (std::size_t end = 0; end != std::string::npos;) {
        end = name.find('/', end + 1);
        const std::string prefix = name.substr(0, end);
        if (prefix != "/" && check_hdf5(H5Lexists(handle.get(), prefix.c_str(), H5P_DEFAULT), doing) == 0)
            return false;
    }
    return check_hdf5(H5Oexists_by_name(handle.get(), name.c_str(), H5P_DEFAULT), doing) > 0;
}

Dataset File::Impl::open_dataset(const std::string& name, const Attempt& doing) const {
    if (!exists(name))
        throw Error(doing.category, concat(path.string(), " has no ", name));
    return Dataset(H5Dopen2(handle.get(), name.c_str(), H5P_DEFAULT), doing);
}

File::File(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
File::File(File&& other) noexcept = default;
File& File::operator=(File&& other) noexcept = default;
File::~File() = default;

File File::create(const std::filesystem::path& path, comm::HostGroup& group) {
    return File(std::make_unique<Impl>(path, Mode::write, &group));
}
File File::open(const std::filesystem::path& path, comm::HostGroup& group) {
    return File(std::make_unique<Impl>(path, Mode::read, &group));
}
File File::create_alone(const std::filesystem::path& path) {
    return File(std::make_unique<Impl>(path, Mode::write, nullptr));
}
File File::open_alone(const std::filesystem::path& path) {
    return File(std::make_unique<Impl>(path, Mode::read, nullptr));
}

void File::set_piece_bytes(std::int64_t bytes) {
    impl_->piece_bytes = bytes;
}

void File::create_dataset(const std::string& name, std::span<const std::int64_t> shape, DType type) {
    TRIREME_ASSERT(!shape.empty() &&
                       std::ranges::all_of(shape, [](std::int64_t extent) { return extent > 0; }),
                   "the dataset ", name, " would be empty");
    impl_->together("creation of a dataset", [&] {
        const Attempt doing = impl_->attempt("create", name);
        const std::vector<hsize_t> extents(shape.begin(), shape.end());
        const Space space(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), doing);
        const Dataset made(H5Dcreate2(impl_->handle.get(), name.c_str(), hdf5_type(type, doing).get(),
                                      space.get(), link_properties(doing).get(),
                                      dataset_properties(doing).get(), H5P_DEFAULT),
                           doing);
    });
}

bool File::has(const std::string& name) const {
    bool found = false;
    impl_->together("look-up", [&] { found = impl_->exists(name); });
    return found;
}

DatasetInfo File::info(const std::string& name) const {
    DatasetInfo found;
    impl_->together("look-up", [&] {
        const Attempt doing = impl_->attempt("examine", name);
        found = describe(impl_->open_dataset(name, doing).get(), doing);
    });
    return found;
}

Place File::place(const std::string& name) const {
    Place found;
    impl_->together("look-up", [&] {
        const Attempt doing = impl_->attempt("examine", name);
        const Dataset dataset = impl_->open_dataset(name, doing);
        const DatasetInfo info = describe(dataset.get(), doing);
        const haddr_t offset = H5Dget_offset(dataset.get());
        if (offset == HADDR_UNDEF)
            throw Error(doing.category,
                        concat(name, " of ", impl_->path.string(), " does not lie in one piece"),
                        {"it has been packed by another program",
                         "try: h5repack -l CONTI FILE NEW, and the new file in place of this one"});
        found = {static_cast<std::int64_t>(offset), info.shape, info.type};
    });
    return found;
}

std::vector<std::string> File::names(const std::string& group) const {
    std::vector<std::string> found;
    impl_->together("look-up", [&] {
        const Attempt doing = impl_->attempt("list", group);
        if (group != "/" && !impl_->exists(group))
            throw Error(doing.category, concat(impl_->path.string(), " has no ", group));
        check_hdf5(H5Literate_by_name(impl_->handle.get(), group.c_str(), H5_INDEX_NAME, H5_ITER_INC, nullptr,
                                      collect_name, &found, H5P_DEFAULT),
                   doing);
    });
    std::ranges::sort(found);
    return found;
}

// One string of fixed length: those of any length cannot be written in parallel, and attributes end at 64
// KiB.
void File::write_text(const std::string& name, const std::string& text) {
    impl_->together("write", [&] {
        const Attempt doing = impl_->attempt("write", name);
        const std::string padded =
            text.empty() ? std::string(1, '\0') : text; // HDF5 has no string of length 0
        const Type type(H5Tcopy(H5T_C_S1), doing);
        check_hdf5(H5Tset_size(type.get(), padded.size()), doing);
        check_hdf5(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), doing);
        check_hdf5(H5Tset_cset(type.get(), H5T_CSET_UTF8), doing);
        const Space space(H5Screate(H5S_SCALAR), doing);
        const Dataset dataset(H5Dcreate2(impl_->handle.get(), name.c_str(), type.get(), space.get(),
                                         link_properties(doing).get(), dataset_properties(doing).get(),
                                         H5P_DEFAULT),
                              doing);
        if (impl_->group->rank() != 0)
            check_hdf5(H5Sselect_none(space.get()), doing);
        check_hdf5(H5Dwrite(dataset.get(), type.get(), space.get(), space.get(),
                            impl_->transfer_properties(doing).get(), padded.data()),
                   doing);
    });
}

std::string File::read_text(const std::string& name) const {
    std::string text;
    impl_->together("read", [&] {
        const Attempt doing = impl_->attempt("read", name);
        const Dataset dataset = impl_->open_dataset(name, doing);
        const Type type(H5Dget_type(dataset.get()), doing);
        const Space space(H5Dget_space(dataset.get()), doing);
        if (H5Tget_class(type.get()) != H5T_STRING || check_hdf5(H5Tis_variable_str(type.get()), doing) > 0 ||
            H5Sget_simple_extent_npoints(space.get()) != 1)
            throw Error(doing.category,
                        concat(name, " of ", impl_->path.string(), " is not one text of fixed length"));
        text.resize(H5Tget_size(type.get()));
        check_hdf5(H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL,
                           impl_->transfer_properties(doing).get(), text.data()),
                   doing);
        text.erase(text.find_last_not_of('\0') + 1);
    });
    return text;
}

void File::write_integer(const std::string& name, std::int64_t value) {
    create_dataset(name, std::array<std::int64_t, 1>{1}, DType::i64);
    const Part part{topology::Box{{{0, 1}}}, Tensor(&value, Shape{1}, DType::i64)};
    write(name, {&part, impl_->group->rank() == 0 ? std::size_t{1} : std::size_t{0}});
}

std::int64_t File::read_integer(const std::string& name) const {
    std::int64_t value = 0;
    const Part part{topology::Box{{{0, 1}}}, Tensor(&value, Shape{1}, DType::i64)};
    const_cast<File*>(this)->read(name, {&part, 1});
    return value;
}

void File::link(const std::string& name, const std::filesystem::path& other_file, const std::string& there) {
    TRIREME_ASSERT(!impl_->parallel(), "links are written by one rank alone");
    impl_->together("write", [&] {
        const Attempt doing = impl_->attempt("link", name);
        check_hdf5(H5Lcreate_external(other_file.c_str(), there.c_str(), impl_->handle.get(), name.c_str(),
                                      link_properties(doing).get(), H5P_DEFAULT),
                   doing);
    });
}

File::LinkTarget File::link_target(const std::string& name) const {
    const Attempt doing = impl_->attempt("look at link", name);
    const auto lock = hdf5_lock();
    H5L_info_t info{};
    check_hdf5(H5Lget_info(impl_->handle.get(), name.c_str(), &info, H5P_DEFAULT), doing);
    if (info.type != H5L_TYPE_EXTERNAL)
        throw Error(doing.category, concat(doing.what, ": it is no link into another file"));
    std::vector<char> value(info.u.val_size);
    check_hdf5(H5Lget_val(impl_->handle.get(), name.c_str(), value.data(), value.size(), H5P_DEFAULT), doing);
    const char *file = nullptr, *there = nullptr;
    unsigned flags = 0;
    check_hdf5(H5Lunpack_elink_val(value.data(), value.size(), &flags, &file, &there), doing);
    return {file, there};
}

// H5Fflush hands everything to the operating systems of all ranks, fsync to their disks. H5Fclose has been
// seen to return success on a full disk, so it comes last and adds nothing to the file but its mark of being
// closed.
void File::close(Durability durability) {
    if (impl_->mode == Mode::write)
        impl_->together("flush", [&] {
            check_hdf5(H5Fflush(impl_->handle.get(), H5F_SCOPE_GLOBAL), impl_->attempt("write", ""));
        });
    impl_->together("closing", [&] {
        if (H5Fclose(impl_->handle.release()) < 0) {
            comm::give_up_finalising();
            fail_hdf5(impl_->attempt("close", ""));
        }
    });
    if (impl_->mode == Mode::write && durability == Durability::synced)
        impl_->together("sync", [&] { sync_file(impl_->path); });
}

} // namespace trireme::storage
