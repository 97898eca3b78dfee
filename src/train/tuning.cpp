// Reads, completes and keeps the choices of matrix algorithms.
#include "tuning.hpp"

#include <set>
#include <sstream>

#include "clock.hpp"
#include "trireme/base/file.hpp"
#include "trireme/comm/host_group.hpp"

namespace trireme::train {
namespace {

std::string read_if_there(const std::string& directory) {
    const std::filesystem::path path = std::filesystem::path(directory) / kAlgorithmsFile;
    if (directory.empty() || !std::filesystem::exists(path))
        return {};
    return read_file(path, ErrorCategory::checkpoint,
                     {"it holds choices of matrix algorithms",
                      "try: remove it; the products are then timed again and bits may differ"});
}

} // namespace

std::string merge_lines(const std::string& known, const std::string& found) {
    std::set<std::string> seen;
    std::string merged;
    for (const std::string* const text : {&known, &found}) {
        std::istringstream lines(*text);
        for (std::string line; std::getline(lines, line);)
            if (seen.insert(line).second)
                merged += line + "\n";
    }
    return merged;
}

std::string tune(Engine& engine, const backend::Backend& backend, comm::HostGroup& world,
                 const std::string& load, const std::string& save) {
    if (backend.device() == backend::Device::cpu)
        return {};
    const Clock::time_point start = Clock::now();
    std::string known;
    comm::agree(world, [&] {
        if (world.rank() == 0) {
            known = read_if_there(save);
            if (load != save)
                known = merge_lines(known, read_if_there(load));
        }
    });
    known = world.broadcast(known, 0);
    const std::string found = engine.tune(known);
    const std::string all = merge_lines(known, found);
    comm::agree(world, [&] {
        if (world.rank() == 0 && !save.empty() && all != known)
            publish_file(std::filesystem::path(save) / kAlgorithmsFile, all);
    });
    const std::string what = found.empty() ? concat("all algorithms known from ", load.empty() ? save : load)
                                           : concat(known.empty() ? "algorithms" : "algorithms of new shapes",
                                                    " timed in ", show_seconds(seconds_since(start)));
    const std::string kept =
        save.empty() ? "not kept: there is no --save" : concat("kept in ", save, "/", kAlgorithmsFile);
    return concat("products  ", what, "; ", kept);
}

} // namespace trireme::train
