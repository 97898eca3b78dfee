// Options to what the cluster layer wants to know.
#include "preflight.hpp"

#include "trireme/base/build_info.hpp"
#include "trireme/cluster/preflight.hpp"
#include "trireme/comm/phase.hpp"
#include "trireme/data/prepare.hpp"
#include "versions.hpp"

namespace trireme {
namespace {

std::vector<std::string> data_files(const std::vector<std::string>& paths) {
    std::vector<std::string> files;
    for (const std::string& path : paths)
        if (data::is_text_file(path))
            files.push_back(path);
        else
            files.insert(files.end(), {path + ".idx", path + ".bin"});
    return files;
}

} // namespace

int run_preflight(const std::vector<std::string>& arguments, const options::Environment& environment,
                  comm::Runtime& runtime) {
    options::ResolvedPreflight options;
    comm::agree(runtime.world(), [&] {
        options =
            options::resolve_preflight(options::parse(options::Command::preflight, arguments), environment);
    });
    const comm::Watchdog watchdog(runtime,
                                  std::chrono::duration<double>(options.machine.distributed_timeout).count());
    std::unique_ptr<backend::Backend> backend;
    comm::agree(runtime.world(), [&] {
        backend = backend::make_backend({.device = options.machine.device == options::Device::cuda
                                                       ? backend::Device::cuda
                                                       : backend::Device::cpu,
                                         .threads = static_cast<int>(options.machine.threads_per_rank),
                                         .local_rank = runtime.local_rank()});
    });
    cluster::PreflightSetup setup;
    setup.grid.tensor = static_cast<int>(options.layout.tensor_parallel);
    setup.grid.pipeline = static_cast<int>(options.layout.pipeline_parallel);
    setup.grid.data = static_cast<int>(options.layout.data_parallel);
    setup.save = options.save;
    setup.data_files = data_files(options.data_path);
    setup.expect = options.expect;
    setup.form = options.json ? cluster::ReportForm::json : cluster::ReportForm::table;
    setup.versions = loaded_versions();
    setup.versions.emplace_back("trireme", concat(build_info().version, " (", build_info().commit, ")"));
    return cluster::preflight(setup, runtime, *backend);
}

} // namespace trireme
