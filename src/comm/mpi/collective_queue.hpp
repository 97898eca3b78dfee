// The collectives of one communicator that have been started: a queue, worked off in order, each as a row of
// exchanges of bounded pieces. Nothing runs by itself: an exchange is posted, and what has arrived is added,
// in advance() and finish(). Blocking collectives go through the same queue, so the bits are the same.
//
// Example, reduce-scatter of parts of 10 elements over 3 ranks with scratch for 3 x 4: exchanges of elements
// 0-3, 4-7 and 8-9 of each part; after each this rank adds three contributions in rank order.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "comm/mpi/check.hpp"
#include "comm/mpi/progress.hpp"
#include "trireme/comm/communicator.hpp"

namespace trireme::comm {

class CollectiveQueue final : public Advancing {
  public:
    struct Place {
        MPI_Comm comm;
        int rank, size;
        const char* group;
    };
    // scratch: for the contributions of other ranks; must live as long as the queue.
    CollectiveQueue(const Place& place, std::span<std::byte> scratch, std::int64_t message_bytes,
                    MpiProgress& progress);
    ~CollectiveQueue() override;
    CollectiveQueue(const CollectiveQueue&) = delete;
    CollectiveQueue& operator=(const CollectiveQueue&) = delete;

    // Each returns the collective's number; all ranks start the same ones in the same order.
    std::int64_t all_reduce(Tensor x, ReduceOp op);
    std::int64_t reduce_scatter(const Tensor& from, Tensor to);
    std::int64_t all_gather(const Tensor& from, Tensor to);

    bool done(std::int64_t number) const { return number < first_; }
    bool idle() const override { return works_.empty(); }
    void advance() override;
    // Returns when collective `number`, and all before it, are done.
    void finish(std::int64_t number);
    void finish_all() { finish(first_ + static_cast<std::int64_t>(works_.size()) - 1); }

  private:
    enum class Kind : std::uint8_t { all_reduce, reduce_scatter, all_gather };
    enum class Stage : std::uint8_t { start, contributions, sums }; // the exchange that is under way
    struct Work {
        Kind kind;
        Tensor from, to;
        ReduceOp op;
        Stage stage = Stage::start;
        std::int64_t first = 0; // element (of a part; all-reduce: of the tensor) where the piece begins
    };
    struct Piece {
        std::byte* data = nullptr;
        std::int64_t count = 0;
    };

    static const char* name(Kind kind);
    std::int64_t add(Work work);
    std::int64_t piece_elements(const Work& work) const;
    // Rank r's share of the piece of an all-reduce that begins at work.first.
    Piece share(const Work& work, int r) const;
    // Posts the next exchange of the work; false if there is none left.
    bool post(Work& work);
    void post_contributions(const Work& work);
    // Adds what has come and moves on to the next exchange.
    void arrived(Work& work);
    // Sends outgoing(r) to and receives incoming(r) from every other rank r; empty pieces are left out.
    template <class Outgoing, class Incoming>
    void exchange(const Work& work, const Outgoing& outgoing, const Incoming& incoming);
    // Completes the exchange under way if it is done, then posts the next.
    bool step();

    std::byte* scratch_part(const Work& work, int r) const;

    Place place_;
    std::span<std::byte> scratch_;
    std::int64_t message_bytes_;
    MpiProgress& progress_;
    std::deque<Work> works_;
    std::int64_t first_ = 0;            // number of works_.front()
    std::vector<MPI_Request> requests_; // [2 * size]
    int pending_ = 0;
    std::vector<const std::byte*> contributions_; // [size]
};

} // namespace trireme::comm
