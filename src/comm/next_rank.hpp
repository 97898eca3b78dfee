// Whether the next rank lives, as the rank before it sees it while it waits: a launcher may leave the others
// alone when one dies. No MPI and no clock, so that it is tested without.
#pragma once

#include <cstdint>

namespace trireme::comm {

class NextRank {
  public:
    // Its process, as far as it can be seen: on this host and there, or gone since; or on another host.
    enum class Process : std::uint8_t { here, gone, elsewhere };
    enum class Verdict : std::uint8_t { nothing, ask, missing };

    // `timeout_seconds`: how long one communication may take. poll() is called every `poll_seconds`; it
    // counts calls, which stand still while this process is stopped, as a clock does not.
    NextRank(double timeout_seconds, double poll_seconds);

    // ask: it is time to ask whether it lives. missing: it has not answered for long, or its process is gone.
    // A process that is there and silent is stopped or starved, and left to the limit on waiting, as is one
    // on another host for a twentieth of that limit: who debugs there allows long waits.
    Verdict poll(bool this_rank_waits, Process process);
    void answered() { forget(); }
    // Begins anew.
    void forget() {
        polls_ = 0;
        asked_ = false;
    }

  private:
    double look_polls_, gone_polls_, silent_polls_;
    int polls_ = 0; // of this rank's wait, or since the question
    bool asked_ = false;
};

} // namespace trireme::comm
