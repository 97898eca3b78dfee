// Deleting old checkpoints, and clearing up after a crash.
#include "trireme/checkpoint/retention.hpp"

#include <algorithm>

#include "names.hpp"
#include "trireme/base/error.hpp"
#include "trireme/base/fault.hpp"
#include "trireme/base/output_file.hpp"
#include "trireme/checkpoint/verify.hpp"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

bool same_directory(const fs::path& a, const fs::path& b) {
    std::error_code failure;
    return !b.empty() && fs::equivalent(a, b, failure);
}

std::string removed_line(const fs::path& path, const char* why, const std::error_code& failure) {
    return failure ? concat("cannot delete ", path.string(), ": ", failure.message())
                   : concat("deleted ", path.string(), " (", why, ")");
}

} // namespace

std::vector<fs::path> superfluous(const fs::path& directory, std::int64_t published,
                                  const Retention& retention) {
    std::vector<fs::path> candidates;
    for (const fs::path& path : checkpoints_in(directory))
        if (const auto iteration = iteration_of(path); iteration && *iteration <= published)
            candidates.push_back(path);
    const auto stay = static_cast<std::size_t>(retention.last);
    if (retention.last == 0 || candidates.size() <= stay)
        return {};
    candidates.resize(candidates.size() - stay);
    std::erase_if(candidates, [&](const fs::path& path) {
        return (retention.interval > 0 && *iteration_of(path) % retention.interval == 0) ||
               same_directory(path, retention.loaded);
    });
    return candidates;
}

std::vector<std::string> remove_superfluous(const fs::path& directory, std::int64_t published,
                                            const Retention& retention) {
    std::vector<std::string> lines;
    for (const fs::path& path : superfluous(directory, published, retention)) {
        std::error_code failure;
        const fs::path going = deleted_name(path);
        fs::rename(path, going, failure);
        fault_point("save-delete");
        if (!failure)
            fs::remove_all(going, failure);
        if (failure)
            lines.push_back(removed_line(path, "", failure));
    }
    return lines;
}

std::vector<std::string> clean_up(const fs::path& directory) {
    std::vector<std::string> lines;
    std::vector<fs::path> all;
    std::error_code failure;
    fs::directory_iterator entry(directory, failure);
    for (; !failure && entry != fs::directory_iterator(); entry.increment(failure))
        all.push_back(entry->path());
    std::ranges::sort(all);
    for (const fs::path& path : all) {
        const std::string ending = path.extension().string();
        fs::path checkpoint = path;
        checkpoint.replace_extension();
        if (!iteration_of(checkpoint))
            continue;
        std::error_code failed;
        if (ending == kReplacedEnding && !fs::exists(checkpoint, failed)) {
            fs::rename(path, checkpoint, failed);
            lines.push_back(failed ? concat("cannot rename ", path.string(), ": ", failed.message())
                                   : concat("put back ", checkpoint.string(),
                                            " (the save that replaces it was interrupted)"));
            continue;
        }
        if (ending == kPartialEnding || ending == kReplacedEnding || ending == kDeletedEnding) {
            fs::remove_all(path, failed);
            lines.push_back(removed_line(path,
                                         ending == kPartialEnding    ? "of an interrupted save"
                                         : ending == kReplacedEnding ? "replaced by a later save"
                                                                     : "of an interrupted deletion",
                                         failed));
        }
    }
    for (const fs::path& path : remove_stale_temporaries(directory / kMarker))
        lines.push_back(removed_line(path, "of an interrupted save", {}));
    return lines;
}

} // namespace trireme::checkpoint
