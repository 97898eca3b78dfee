// Choosing the checkpoint to load.
#include "trireme/checkpoint/select.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "index.hpp"
#include "names.hpp"
#include "stage_reader.hpp"
#include "trireme/base/file.hpp"
#include "trireme/base/printable.hpp"
#include "trireme/checkpoint/verify.hpp"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kReleaseWord = "release";

// What the marker says: a number, or `release`. Nothing if there is no marker.
struct Marker {
    bool release = false;
    std::int64_t iteration = 0;
};

std::optional<Marker> read_marker(const fs::path& directory) {
    const fs::path marker = directory / kMarker;
    std::error_code failure;
    if (!fs::exists(marker, failure)) {
        if (failure)
            throw Error(ErrorCategory::checkpoint,
                        concat("cannot look into ", directory.string(), ": ", failure.message()));
        return std::nullopt;
    }
    std::string text = read_file(marker, ErrorCategory::checkpoint);
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
        text.pop_back();
    if (text == kReleaseWord)
        return Marker{true, 0};
    std::int64_t iteration = -1;
    const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), iteration);
    if (wrong != std::errc{} || end != text.data() + text.size() || iteration < 0)
        throw Error(ErrorCategory::checkpoint, concat(marker.string(), " holds no iteration number"),
                    {concat("it says '", printable(text, 60), "'"),
                     "try: write the number of an iter_NNNNNNN directory beside it into the file"});
    return Marker{false, iteration};
}

// Throws Error (checkpoint) unless the checkpoint is there with all that its index promises, by names and
// sizes.
void require_whole(const fs::path& checkpoint) {
    std::error_code failure;
    if (!fs::exists(checkpoint / kIndexFile, failure))
        throw Error(ErrorCategory::checkpoint, concat((checkpoint / kIndexFile).string(), " is not there"));
    const Index index = read_index(checkpoint);
    if (const auto named = iteration_of(checkpoint); named && *named != index.state.iteration)
        throw Error(ErrorCategory::checkpoint,
                    concat(checkpoint.string(), " holds iteration ", index.state.iteration));
    StageReader reader(checkpoint, index);
    for (std::size_t slot = 0; slot < index.contents.slots(); ++slot)
        reader.require_within_file(slot);
}

// The marker's, then the earlier ones from the newest; all of them without a marker.
std::vector<fs::path> candidates(const fs::path& directory, const std::optional<Marker>& marker) {
    std::vector<fs::path> result;
    if (marker && marker->release)
        return {directory / kReleaseDirectory};
    if (marker)
        result.push_back(directory / iteration_name(marker->iteration));
    std::error_code failure;
    if (!fs::exists(directory, failure))
        return result;
    std::vector<fs::path> all = checkpoints_in(directory);
    std::ranges::reverse(all);
    for (fs::path& checkpoint : all)
        if (const auto iteration = iteration_of(checkpoint);
            iteration && (!marker || *iteration < marker->iteration))
            result.push_back(std::move(checkpoint));
    return result;
}

[[noreturn]] void throw_none(const fs::path& directory, const Wanted& wanted,
                             const std::vector<PassedOver>& passed_over) {
    std::vector<std::string> details;
    for (const PassedOver& each : passed_over)
        details.push_back(concat(each.checkpoint.filename().string(), ": ", each.reason));
    const std::string name = passed_over.front().checkpoint.filename().string();
    if (wanted.step)
        details.push_back(
            "try: the number of another checkpoint with --ckpt-step, or without it the marker's");
    else if (wanted.fall_back == FallBack::no)
        details.push_back("try: without --no-load-fallback an earlier one is taken; --ckpt-step chooses one");
    else
        details.push_back("try: a copy of one of them, another --load, or start fresh without --load");
    throw Error(ErrorCategory::checkpoint,
                wanted.step || wanted.fall_back == FallBack::no
                    ? concat("the checkpoint ", name, " in ", directory.string(), " cannot be loaded")
                    : concat("no checkpoint in ", directory.string(), " can be loaded"),
                std::move(details));
}

} // namespace

Selection select(const fs::path& directory, const Wanted& wanted, const std::vector<PassedOver>& damaged) {
    Selection selection;
    const std::optional<Marker> marker = wanted.step ? Marker{false, *wanted.step} : read_marker(directory);
    std::vector<fs::path> paths = candidates(directory, marker);
    if (paths.empty())
        return selection;
    selection.marker_missing = !marker;
    if (!marker)
        selection.passed_over.push_back(
            {directory / kMarker, "it is not there, though there are checkpoints"});
    const bool only_first = wanted.step || wanted.fall_back == FallBack::no;
    if (only_first && !marker)
        throw_none(directory, wanted, selection.passed_over);
    if (only_first)
        paths.resize(1);
    for (const fs::path& path : paths) {
        const auto known =
            std::ranges::find_if(damaged, [&](const PassedOver& each) { return each.checkpoint == path; });
        if (known != damaged.end()) {
            selection.passed_over.push_back(*known);
            continue;
        }
        if (const auto failure = comm::attempt(*comm::make_self_host_group(), [&] { require_whole(path); })) {
            selection.passed_over.push_back({path, failure->what()});
            continue;
        }
        selection.checkpoint = path;
        selection.release = path.filename() == kReleaseDirectory;
        return selection;
    }
    throw_none(directory, wanted, selection.passed_over);
}

Selection select(comm::HostGroup& group, const fs::path& directory, const Wanted& wanted,
                 const std::vector<PassedOver>& damaged) {
    Selection selection;
    comm::agree(group, [&] {
        if (group.rank() == 0)
            selection = select(directory, wanted, damaged);
    });
    // A line each: the checkpoint (or nothing), what it is, then pairs of what was passed over and why.
    std::string lines = concat(selection.checkpoint.value_or("").string(), "\n", selection.release ? 1 : 0,
                               selection.marker_missing ? 1 : 0, "\n");
    for (const PassedOver& each : selection.passed_over)
        lines += concat(each.checkpoint.string(), "\n", each.reason, "\n");
    std::istringstream shared(group.broadcast(lines, 0));
    Selection result;
    std::string path, reason;
    std::getline(shared, path);
    std::getline(shared, reason);
    if (!path.empty())
        result.checkpoint = path;
    result.release = reason.starts_with('1');
    result.marker_missing = reason.ends_with('1');
    while (std::getline(shared, path) && std::getline(shared, reason))
        result.passed_over.push_back({path, reason});
    return result;
}

} // namespace trireme::checkpoint
