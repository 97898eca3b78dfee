// SAVE/lease: which job saves into a directory. Two jobs that write the same checkpoints would each delete or
// replace what the other relies on, so the second one is refused while the first shows signs of life; a job
// that was killed leaves a lease behind that the next one takes over.
//
// Whether the holder lives: on this host its process is asked for; the same Slurm job started again has
// nobody else to fear; anybody else is watched for `patience`: no clocks are compared, only whether its beat
// advances.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace trireme::checkpoint {

struct LeaseTimes {
    std::chrono::milliseconds beat{5000};
    std::chrono::milliseconds patience{30000};
};

class Lease {
  public:
    // Takes the lease and keeps it alive by a thread. One rank of a job. `say` gets a line for people where
    // there is something to wait for or to take over. Throws Error (output): another job holds it, or the
    // directory cannot be written.
    Lease(const std::filesystem::path& directory, const std::function<void(const std::string&)>& say,
          const LeaseTimes& times = {});
    ~Lease(); // gives it back
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    // Throws Error (output) if another job has taken it over.
    void require_held() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trireme::checkpoint
