// Reads launchers' variables and judges the pair of launcher and MPI.
#include "comm/launch.hpp"

#include <charconv>
#include <sstream>

namespace trireme::comm {

namespace {

std::optional<int> number(const std::optional<std::string>& text) {
    int value = 0;
    if (!text || text->empty())
        return std::nullopt;
    const auto [end, failure] = std::from_chars(text->data(), text->data() + text->size(), value);
    return failure == std::errc{} && end == text->data() + text->size() ? std::optional(value) : std::nullopt;
}

std::string spoken(const Launch& launch) {
    return launch.pmix ? "PMIx" : launch.pmi ? "PMI-1 or PMI-2" : "no PMI at all";
}

std::vector<std::string> details(const Launch& launch, const MpiLibrary& library, const AskSlurm& offers) {
    std::vector<std::string> lines{
        concat("this program's MPI is ", library.version, "; ", launch.starter, " offered ", spoken(launch))};
    if (launch.starter == "srun") {
        if (const std::string known = offers(); !known.empty())
            lines.push_back(concat("srun --mpi=list says here: ", known));
        const std::string right = library.is_open_mpi() ? "pmix" : "pmi2";
        lines.push_back(concat("try: srun --mpi=", right, " ..., or mpirun inside of salloc or sbatch"));
    } else {
        lines.emplace_back("try: the mpirun that belongs to this MPI (make config shows which; module list)");
    }
    return lines;
}

// All processes meet the same: one prints.
Error spoken_once(const Launch& launch, Error error) {
    error.set_agreement({launch.ranks.value_or(1), 0});
    return error;
}

} // namespace

Launch read_launch(const Variables& get) {
    Launch launch;
    launch.pmix = get("PMIX_RANK").has_value();
    launch.pmi = get("PMI_RANK").has_value() || get("PMI_FD").has_value();
    if (get("OMPI_COMM_WORLD_RANK")) {
        launch.starter = "mpirun";
        launch.rank = number(get("OMPI_COMM_WORLD_RANK"));
        launch.ranks = number(get("OMPI_COMM_WORLD_SIZE"));
    } else if (get("SLURM_STEP_ID") && get("SLURM_PROCID")) {
        launch.starter = "srun";
        launch.rank = number(get("SLURM_PROCID"));
        launch.ranks = number(get("SLURM_STEP_NUM_TASKS"));
        launch.local_rank = number(get("SLURM_LOCALID"));
        launch.nodes = number(get("SLURM_STEP_NUM_NODES"));
    } else if (launch.pmix || launch.pmi) {
        launch.starter = "mpiexec";
        launch.rank = number(get(launch.pmix ? "PMIX_RANK" : "PMI_RANK"));
        launch.ranks = number(get("PMI_SIZE"));
    } else {
        launch.starter = "alone";
    }
    return launch;
}

std::string kinds_of_pmi(const std::string& words) {
    std::string kinds;
    std::istringstream lines(words);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream parts(line);
        std::string kind, more;
        if (parts >> kind && kind == "srun:")
            parts >> kind;
        if (!kind.empty() && kind != "srun:" && !(parts >> more)) // sentences are not kinds
            kinds += concat(kinds.empty() ? "" : ", ", kind);
    }
    return kinds;
}

std::optional<Error> check_before_start(const Launch& launch, const MpiLibrary& library,
                                        const AskSlurm& offers) {
    // An Open MPI in a Slurm step that finds no PMI of its kind ends the program inside MPI_Init.
    if (launch.starter != "srun" || !library.is_open_mpi() || launch.pmix || library.slurm_pmi)
        return std::nullopt;
    return spoken_once(launch, Error(ErrorCategory::communication,
                                     "srun and this MPI do not understand each other: MPI cannot start",
                                     details(launch, library, offers)));
}

std::optional<Error> check_after_start(const Launch& launch, const MpiLibrary& library, int ranks,
                                       const AskSlurm& offers) {
    if (!launch.ranks || *launch.ranks == ranks)
        return std::nullopt;
    if (ranks == 1)
        return spoken_once(launch, Error(ErrorCategory::communication,
                                         concat(launch.starter, " started ", *launch.ranks,
                                                " processes, and each takes itself for the only one"),
                                         details(launch, library, offers)));
    return spoken_once(
        launch, Error(ErrorCategory::communication,
                      concat(launch.starter, " started ", *launch.ranks, " processes, and MPI sees ", ranks),
                      details(launch, library, offers)));
}

std::string differences(const Launch& launch, int rank, int local_rank, int nodes) {
    std::string text;
    const auto compare = [&](const char* what, const std::optional<int>& theirs, int ours) {
        if (theirs && *theirs != ours)
            text += concat(text.empty() ? "" : ", ", what, " ", ours, " by MPI and ", *theirs, " by Slurm");
    };
    if (launch.starter != "srun")
        return text;
    compare("rank", launch.rank, rank);
    compare("local rank", launch.local_rank, local_rank);
    compare("nodes", launch.nodes, nodes);
    return text;
}

} // namespace trireme::comm
