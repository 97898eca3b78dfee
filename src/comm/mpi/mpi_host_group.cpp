// The control plane over MPI: byte strings in pieces that never come near MPI's 2 GiB counts, sums in rank
// order.
#include "comm/mpi/mpi_host_group.hpp"

#include <algorithm>

#include "comm/reduce.hpp"
#include "trireme/comm/phase.hpp"

namespace trireme::comm {

namespace {

constexpr std::int64_t kPiece = std::int64_t{64} << 20; // bytes of one call, all ranks together

} // namespace

MpiHostGroup::MpiHostGroup(const std::string& name, MpiComm comm)
    : name_(lasting_name(name)), comm_(std::move(comm)), rank_(comm_.rank()),
      world_ranks_(comm_.world_ranks()) {}

void MpiHostGroup::barrier() {
    const WaitScope waiting("barrier", name_);
    check_mpi(MPI_Barrier(comm_.get()), "barrier", name_);
}

std::vector<std::string> MpiHostGroup::all_gather(const std::string& bytes) {
    const WaitScope waiting("exchange of values", name_);
    const auto ranks = static_cast<std::size_t>(size());
    const auto length = static_cast<std::int64_t>(bytes.size());
    std::vector<std::int64_t> lengths(ranks);
    check_mpi(MPI_Allgather(&length, 1, MPI_INT64_T, lengths.data(), 1, MPI_INT64_T, comm_.get()),
              "exchange of lengths", name_);

    std::vector<std::string> all(ranks);
    for (std::size_t r = 0; r < ranks; ++r)
        all[r].reserve(static_cast<std::size_t>(lengths[r]));
    const std::int64_t piece = std::max<std::int64_t>(1, kPiece / size());
    const std::int64_t longest = *std::ranges::max_element(lengths);
    std::string received;
    std::vector<int> counts(ranks), offsets(ranks);
    for (std::int64_t done = 0; done < longest; done += piece) {
        int total = 0;
        for (std::size_t r = 0; r < ranks; ++r) {
            counts[r] = static_cast<int>(std::clamp<std::int64_t>(lengths[r] - done, 0, piece));
            offsets[r] = total;
            total += counts[r];
        }
        received.resize(static_cast<std::size_t>(total));
        const char* from = bytes.data() + std::min(done, length);
        check_mpi(MPI_Allgatherv(from, counts[static_cast<std::size_t>(rank_)], MPI_CHAR, received.data(),
                                 counts.data(), offsets.data(), MPI_CHAR, comm_.get()),
                  "exchange of values", name_);
        for (std::size_t r = 0; r < ranks; ++r)
            all[r].append(received, static_cast<std::size_t>(offsets[r]),
                          static_cast<std::size_t>(counts[r]));
    }
    return all;
}

std::string MpiHostGroup::broadcast(const std::string& bytes, int root) {
    TRIREME_ASSERT(root >= 0 && root < size(), "broadcast from rank ", root, " in the ", name_, " of ",
                   size());
    const WaitScope waiting("broadcast of values", name_, world_ranks_[static_cast<std::size_t>(root)]);
    auto length = static_cast<std::int64_t>(bytes.size());
    check_mpi(MPI_Bcast(&length, 1, MPI_INT64_T, root, comm_.get()), "broadcast of a length", name_);
    std::string all = rank_ == root ? bytes : std::string(static_cast<std::size_t>(length), '\0');
    for (std::int64_t done = 0; done < length; done += kPiece)
        check_mpi(MPI_Bcast(all.data() + done, static_cast<int>(std::min(kPiece, length - done)), MPI_CHAR,
                            root, comm_.get()),
                  "broadcast of values", name_);
    return all;
}

void MpiHostGroup::all_reduce(std::span<double> values, ReduceOp op) {
    const WaitScope waiting("sum of values", name_);
    const std::size_t count = values.size();
    TRIREME_ASSERT(static_cast<std::int64_t>(count * sizeof(double)) * size() <= kPiece, count,
                   " values are too many for the control plane");
    std::vector<double> all(count * world_ranks_.size());
    check_mpi(MPI_Allgather(values.data(), static_cast<int>(count), MPI_DOUBLE, all.data(),
                            static_cast<int>(count), MPI_DOUBLE, comm_.get()),
              "sum of values", name_);
    std::vector<const std::byte*> parts;
    for (std::size_t r = 0; r < world_ranks_.size(); ++r)
        parts.push_back(reinterpret_cast<const std::byte*>(all.data() + r * count));
    reduce_in_rank_order(op, DType::f64, parts, reinterpret_cast<std::byte*>(values.data()),
                         static_cast<std::int64_t>(count));
}

MPI_Comm mpi_comm(const HostGroup& group) {
    const auto* over_mpi = dynamic_cast<const MpiHostGroup*>(&group);
    return over_mpi == nullptr ? MPI_COMM_NULL : over_mpi->comm();
}

} // namespace trireme::comm
