// Which checkpoint of a directory is taken: the one that the marker names, or one that was asked for; and if
// that is damaged, incomplete or missing, the newest earlier one that is whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trireme/comm/host_group.hpp"

namespace trireme::checkpoint {

enum class FallBack : std::uint8_t { no, yes };

struct Wanted {
    std::optional<std::int64_t> step; // this one and no other
    FallBack fall_back = FallBack::yes;
};

// Not taken, and why.
struct PassedOver {
    std::filesystem::path checkpoint;
    std::string reason;
};

struct Selection {
    std::optional<std::filesystem::path> checkpoint; // nothing: there is none in the directory
    bool release = false;                            // weights to start from: they have no iteration
    std::vector<PassedOver> passed_over;
    bool marker_missing = false; // and it stands among them
};

// Looks at index, files and sizes; the data is checked when it is loaded. `damaged`: those that could not be
// loaded. Any rank may call it alone. Throws Error (checkpoint): rubbish in the marker; no checkpoint is
// whole; the wanted one is not, or the marker's is not and falling back is refused.
Selection select(const std::filesystem::path& directory, const Wanted& wanted,
                 const std::vector<PassedOver>& damaged = {});
// The same, decided by the first rank for all of the group. Collective.
Selection select(comm::HostGroup& group, const std::filesystem::path& directory, const Wanted& wanted,
                 const std::vector<PassedOver>& damaged = {});

} // namespace trireme::checkpoint
