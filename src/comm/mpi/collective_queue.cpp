// Exchanges of contributions and sums, one after the other.
#include "comm/mpi/collective_queue.hpp"

#include <algorithm>

#include "comm/reduce.hpp"

namespace trireme::comm {

namespace {

constexpr int kExchangeTag = kMaxChannel + 1; // collectives' own messages; MPI promises tags up to 32767

std::byte* element(const Tensor& x, std::int64_t index) {
    return static_cast<std::byte*>(x.data()) + index * size_bytes(x.type());
}

} // namespace

CollectiveQueue::CollectiveQueue(const Place& place, std::span<std::byte> scratch, std::int64_t message_bytes,
                                 MpiProgress& progress)
    : place_(place), scratch_(scratch), message_bytes_(message_bytes), progress_(progress),
      requests_(static_cast<std::size_t>(2 * place.size), MPI_REQUEST_NULL),
      contributions_(static_cast<std::size_t>(place.size)) {
    progress_.add(*this);
}

CollectiveQueue::~CollectiveQueue() {
    progress_.remove(*this);
}

const char* CollectiveQueue::name(Kind kind) {
    constexpr const char* kNames[] = {"all-reduce", "reduce-scatter", "all-gather"};
    return kNames[static_cast<std::size_t>(kind)];
}

std::int64_t CollectiveQueue::all_reduce(Tensor x, ReduceOp op) {
    return add({.kind = Kind::all_reduce, .from = x, .to = x, .op = op});
}

std::int64_t CollectiveQueue::reduce_scatter(const Tensor& from, Tensor to) {
    return add({.kind = Kind::reduce_scatter, .from = from, .to = to, .op = ReduceOp::sum});
}

std::int64_t CollectiveQueue::all_gather(const Tensor& from, Tensor to) {
    const std::int64_t own = place_.rank * from.elements();
    if (from.data() != element(to, own))
        std::copy_n(element(from, 0), from.bytes(), element(to, own));
    return add({.kind = Kind::all_gather, .from = from, .to = to, .op = ReduceOp::sum});
}

std::int64_t CollectiveQueue::add(Work work) {
    works_.push_back(std::move(work));
    if (works_.size() == 1)
        post(works_.front());
    return first_ + static_cast<std::int64_t>(works_.size()) - 1;
}

std::int64_t CollectiveQueue::piece_elements(const Work& work) const {
    const std::int64_t width = size_bytes(work.to.type());
    return work.kind == Kind::all_gather ? message_bytes_ / width
                                         : static_cast<std::int64_t>(scratch_.size()) / place_.size / width;
}

std::byte* CollectiveQueue::scratch_part(const Work& work, int r) const {
    return scratch_.data() + r * piece_elements(work) * size_bytes(work.to.type());
}

// Example: 3 ranks, scratch for 6 elements (parts of 2), x of 10: pieces [0,6) and [6,10). In the second,
// rank 0 adds elements 6-7, rank 1 adds 8-9, rank 2 nothing.
CollectiveQueue::Piece CollectiveQueue::share(const Work& work, int r) const {
    const std::int64_t part = piece_elements(work);
    const std::int64_t left = std::min(part * place_.size, work.to.elements() - work.first);
    // A short last piece is shared by all ranks alike.
    const std::int64_t each = std::min(part, (left + place_.size - 1) / place_.size);
    const std::int64_t begin = std::min(left, r * each);
    return {element(work.to, work.first + begin), std::min(each, left - begin)};
}

template <class Outgoing, class Incoming>
void CollectiveQueue::exchange(const Work& work, const Outgoing& outgoing, const Incoming& incoming) {
    const MPI_Datatype type = mpi_type(work.to.type());
    const char* const what = name(work.kind);
    pending_ = 0;
    for (int step = 1; step < place_.size; ++step) {
        const int from = (place_.rank + place_.size - step) % place_.size;
        if (const Piece piece = incoming(from); piece.count > 0)
            check_mpi(MPI_Irecv(piece.data, static_cast<int>(piece.count), type, from, kExchangeTag,
                                place_.comm, &requests_[static_cast<std::size_t>(pending_++)]),
                      what, place_.group);
    }
    for (int step = 1; step < place_.size; ++step) {
        const int to = (place_.rank + step) % place_.size;
        if (const Piece piece = outgoing(to); piece.count > 0)
            check_mpi(MPI_Isend(piece.data, static_cast<int>(piece.count), type, to, kExchangeTag,
                                place_.comm, &requests_[static_cast<std::size_t>(pending_++)]),
                      what, place_.group);
    }
}

void CollectiveQueue::post_contributions(const Work& work) {
    if (work.kind == Kind::all_reduce) {
        const std::int64_t own = share(work, place_.rank).count;
        return exchange(
            work, [&](int r) { return share(work, r); },
            [&](int r) {
                return Piece{scratch_part(work, r), own};
            });
    }
    const std::int64_t part = work.kind == Kind::all_gather ? work.from.elements() : work.to.elements();
    const std::int64_t count = std::min(piece_elements(work), part - work.first);
    if (work.kind == Kind::all_gather)
        return exchange(
            work,
            [&](int) {
                return Piece{element(work.from, work.first), count};
            },
            [&](int r) {
                return Piece{element(work.to, r * part + work.first), count};
            });
    exchange(
        work,
        [&](int r) {
            return Piece{element(work.from, r * part + work.first), count};
        },
        [&](int r) {
            return Piece{scratch_part(work, r), count};
        });
}

bool CollectiveQueue::post(Work& work) {
    switch (work.stage) {
    case Stage::start: {
        const std::int64_t end = work.kind == Kind::all_gather ? work.from.elements() : work.to.elements();
        if (work.first >= end)
            return false;
        work.stage = Stage::contributions;
        post_contributions(work);
        return true;
    }
    case Stage::contributions: {
        work.stage = Stage::sums;
        const Piece own = share(work, place_.rank);
        exchange(
            work, [&](int) { return own; }, [&](int r) { return share(work, r); });
        return true;
    }
    case Stage::sums:
        break;
    }
    TRIREME_ASSERT(false, "a collective in the ", place_.group, " has lost its place");
    return false;
}

void CollectiveQueue::arrived(Work& work) {
    const std::int64_t piece = piece_elements(work);
    if (work.stage == Stage::sums || work.kind == Kind::all_gather) {
        work.first += work.kind == Kind::all_reduce ? piece * place_.size : piece;
        work.stage = Stage::start;
        return;
    }
    const bool reduces_all = work.kind == Kind::all_reduce;
    const std::int64_t part = work.to.elements();
    const Piece own = reduces_all ? share(work, place_.rank)
                                  : Piece{element(work.from, place_.rank * part + work.first),
                                          std::min(piece, part - work.first)};
    for (int r = 0; r < place_.size; ++r)
        contributions_[static_cast<std::size_t>(r)] = r == place_.rank ? own.data : scratch_part(work, r);
    reduce_in_rank_order(work.op, work.to.type(), contributions_,
                         reduces_all ? own.data : element(work.to, work.first), own.count);
    if (reduces_all)
        return; // the sums travel next
    work.first += piece;
    work.stage = Stage::start;
}

bool CollectiveQueue::step() {
    int done = 0;
    check_mpi(MPI_Testall(pending_, requests_.data(), &done, MPI_STATUSES_IGNORE), name(works_.front().kind),
              place_.group);
    if (done == 0)
        return false;
    arrived(works_.front());
    if (!post(works_.front())) {
        works_.pop_front();
        ++first_;
        if (!works_.empty())
            post(works_.front());
    }
    return true;
}

void CollectiveQueue::advance() {
    while (!works_.empty() && step()) {
    }
}

void CollectiveQueue::finish(std::int64_t number) {
    while (!done(number)) {
        if (progress_.idle_but(*this))
            check_mpi(MPI_Waitall(pending_, requests_.data(), MPI_STATUSES_IGNORE), name(works_.front().kind),
                      place_.group);
        progress_.advance();
    }
}

} // namespace trireme::comm
