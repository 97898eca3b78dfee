// Who started this process, as far as its environment tells, and whether that launcher and this MPI library
// can work together. No MPI here: what is known comes in as values, so that every case is tested without a
// cluster.
//
// Without this a wrong pair ends in one of two ways: MPI_Init kills the program with a page of text, or each
// process takes itself for the only one, and N runs write over each other.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/base/error.hpp"

namespace trireme::comm {

using Variables = std::function<std::optional<std::string>(const std::string& name)>;

struct Launch {
    std::string starter;                  // "mpirun", "srun", "mpiexec" or "alone"
    std::optional<int> rank, ranks;       // as the launcher numbers them
    bool pmix = false;                    // the launcher speaks PMIx,
    bool pmi = false;                     // PMI-1 or PMI-2
    std::optional<int> local_rank, nodes; // of a Slurm step
};

// Before MPI_Init, which may add variables.
Launch read_launch(const Variables& get);

struct MpiLibrary {
    std::string version;    // the first words of its own, "Open MPI v4.1.4"
    bool slurm_pmi = false; // an Open MPI with plugins for Slurm's PMI-1 or PMI-2
    bool is_open_mpi() const { return version.starts_with("Open MPI"); }
};

// What srun offers, "pmix, pmi2, none"; asked only when a message needs it.
using AskSlurm = std::function<std::string()>;

// The kinds in the words of srun --mpi=list, one a line, with or without "srun:" before them: "pmix, none,
// pmi2".
std::string kinds_of_pmi(const std::string& words);

// Before MPI_Init: the launcher gave nothing that this MPI can use. Every process gets the same Error; the
// launcher's rank 0 is its speaker.
std::optional<Error> check_before_start(const Launch& launch, const MpiLibrary& library,
                                        const AskSlurm& offers);

// After it: `ranks` is what MPI found.
std::optional<Error> check_after_start(const Launch& launch, const MpiLibrary& library, int ranks,
                                       const AskSlurm& offers);

// What differs between MPI's and Slurm's numbers and does no harm by itself: a line for people, or "".
std::string differences(const Launch& launch, int rank, int local_rank, int nodes);

} // namespace trireme::comm
