// Lets collectives in flight move on while this rank waits for something else. MPI moves data only inside its
// calls, and sums are added by us: so whoever waits, in any group of a layout, gives the others a turn.
// Without that, a rank that waits for its pipeline neighbour could hold up a reduction that the neighbour
// waits for.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "comm/mpi/check.hpp"

namespace trireme::comm {

class Advancing {
  public:
    virtual ~Advancing() = default;
    virtual bool idle() const = 0;
    virtual void advance() = 0; // does not block
};

class MpiProgress {
  public:
    void add(Advancing& one) { all_.push_back(&one); }
    void remove(Advancing& one) { std::erase(all_, &one); }
    void advance() {
        for (Advancing* const one : all_)
            if (!one->idle())
                one->advance();
    }
    // As MPI_Waitall.
    void wait(std::span<MPI_Request> requests, const char* what, const char* group) {
        const auto count = static_cast<int>(requests.size());
        while (!idle_but()) {
            int done = 0;
            check_mpi(MPI_Testall(count, requests.data(), &done, MPI_STATUSES_IGNORE), what, group);
            if (done != 0)
                return;
            advance();
        }
        check_mpi(MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE), what, group);
    }

    // Whether nothing is in flight, `except` left aside.
    template <class... Except>
    bool idle_but(const Except&... except) const {
        return std::ranges::all_of(
            all_, [&](const Advancing* one) { return ((one == &except) || ...) || one->idle(); });
    }

  private:
    std::vector<Advancing*> all_;
};

} // namespace trireme::comm
