// The trireme program: dispatches sub-commands, and is the one place where errors end.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint_tools.hpp"
#include "preflight.hpp"
#include "trireme/backend/backend.hpp"
#include "trireme/base/build_info.hpp"
#include "trireme/base/fault.hpp"
#include "trireme/checkpoint/checkpoint.hpp"
#include "trireme/checkpoint/select.hpp"
#include "trireme/cluster/slurm.hpp"
#include "trireme/comm/phase.hpp"
#include "trireme/comm/runtime.hpp"
#include "trireme/data/tokenizer.hpp"
#include "trireme/options/parse.hpp"
#include "trireme/options/resolve.hpp"
#include "trireme/train/generate.hpp"
#include "trireme/train/plan_command.hpp"
#include "trireme/train/pretrain.hpp"
#include "versions.hpp"

namespace trireme {
namespace {

std::string info() {
    const BuildInfo& build = build_info();
    std::string text = concat("trireme   ", build.version, " (", build.commit, ")\n", "compiler  ",
                              build.compiler, "\n", "flags     ", build.flags, "\n", "devices   ",
                              backend::has_cuda() ? "cpu, cuda" : "cpu", "\n");
    for (const auto& [name, version] : loaded_versions())
        text += concat(name, std::string(10 - name.size(), ' '), version, "\n");
    if (const std::string blas = blas_kernels(); !blas.empty())
        text += concat("BLAS      ", blas, "\n");
    return text +
           concat("Unicode   ", data::unicode_version(), " (letters, numbers and spaces of tokenizers)\n");
}

// The options of the checkpoint that --load names: evaluate and generate take the model's shape from there,
// and so does pretrain if it is told to.
options::Inherited inherited_options(options::Command command, const std::vector<std::string>& arguments) {
    const options::Parsed first = options::parse(command, arguments);
    if (!first.values.load || (command == options::Command::pretrain && !first.values.use_checkpoint_args))
        return {};
    const checkpoint::Selection found =
        checkpoint::select(*first.values.load, {first.values.ckpt_step, first.values.no_load_fallback
                                                                            ? checkpoint::FallBack::no
                                                                            : checkpoint::FallBack::yes});
    if (!found.checkpoint)
        return {};
    return {checkpoint::read_state(*found.checkpoint).options, found.checkpoint->string()};
}

const std::chrono::steady_clock::time_point program_start = std::chrono::steady_clock::now();

// Trains, and leaves word in SAVE/last_exit when that ends with an error.
int pretrain(const options::Resolved& options, comm::Runtime& runtime, const train::Launch& launch) {
    try {
        return train::pretrain(options, runtime, launch);
    } catch (const Error& error) {
        const Agreement& agreement = error.agreement();
        if (agreement.ranks == 0 || agreement.speaker == runtime.rank())
            launch.record->write_error(error.exit_code());
        throw;
    }
}

options::Environment environment_of(const comm::Runtime& runtime,
                                    const std::optional<cluster::SlurmJob>& job) {
    options::Environment environment;
    environment.devices =
        backend::has_cuda() ? options::DeviceSupport::cpu_and_cuda : options::DeviceSupport::cpu_only;
    environment.ranks = runtime.ranks();
    environment.launcher = runtime.started_by();
    environment.ranks_on_node = runtime.ranks_on_node();
    environment.cores_on_node = std::max(1u, std::thread::hardware_concurrency());
    environment.under_slurm = job.has_value();
    return environment;
}

int run(options::Command command, const std::vector<std::string>& arguments, comm::Runtime& runtime) {
    const std::optional<cluster::SlurmJob> job = cluster::find_slurm_job();
    const options::Environment environment = environment_of(runtime, job);
    if (command == options::Command::preflight)
        return run_preflight(arguments, environment, runtime);
    options::Resolved resolved;
    comm::agree(runtime.world(), [&] {
        resolved = options::resolve(options::parse(command, arguments, inherited_options(command, arguments)),
                                    environment);
    });
    train::ExitRecord record(command == options::Command::pretrain ? resolved.checkpoint.save : "", job);
    const comm::Watchdog watchdog(runtime,
                                  std::chrono::duration<double>(resolved.machine.distributed_timeout).count(),
                                  [&](const Error& error) { record.write_error(error.exit_code()); });
    switch (command) {
    case options::Command::pretrain:
        return pretrain(resolved, runtime, {job, program_start, &record});
    case options::Command::evaluate:
        return train::evaluate(resolved, runtime);
    case options::Command::generate:
        return train::generate(resolved, runtime);
    default: // needs no ranks, or was run above
        break;
    }
    TRIREME_ASSERT(false, "an unknown command");
    return 1;
}

// The number that a launcher gave this process, readable before MPI is started; nothing without a launcher.
std::optional<int> number_from_launcher() {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
        if (const char* text = std::getenv(name))
            return std::atoi(text);
    return std::nullopt;
}

bool is_help(const std::string& word) {
    return word == "--help" || word == "-h" || word == "help";
}

// Says a text once, whatever the number of processes.
int say(const std::string& text) {
    if (number_from_launcher().value_or(0) == 0)
        std::cout << text << std::flush;
    return 0;
}

// `trireme plan`, on one process whatever started it. The ranks are those that the run would have.
int foresee(const std::vector<std::string>& arguments) {
    const options::Parsed parsed = options::parse(options::Command::plan, arguments);
    options::Environment environment;
    environment.devices = options::DeviceSupport::cpu_and_cuda; // a login node need not have what the run has
    const std::int64_t least = std::max<std::int64_t>(1, parsed.values.tensor_model_parallel_size) *
                               std::max<std::int64_t>(1, parsed.values.pipeline_model_parallel_size);
    environment.ranks = parsed.values.search.value_or(parsed.values.world_size.value_or(least));
    environment.launcher = parsed.values.search       ? "--search"
                           : parsed.values.world_size ? "--world-size"
                                                      : "TP x PP";
    const options::Resolved resolved = options::resolve(parsed, environment);
    return train::plan(resolved, [](const std::string& text) { say(text); });
}

// Of an error that all processes met before they could talk to each other, the launcher's first one speaks;
// the others give it time to, as a launcher may end all when one ends.
int report_without_mpi(const Error& error) {
    const Agreement& agreement = error.agreement();
    if (agreement.ranks > 1 && agreement.speaker != number_from_launcher().value_or(agreement.speaker))
        std::this_thread::sleep_for(std::chrono::seconds(6)); // it asks Slurm
    else
        std::cerr << error.message() << std::flush;
    return error.exit_code();
}

int run_as_one_of_many(int argc, char** argv, const std::function<int(comm::Runtime&)>& work) {
    comm::Runtime runtime(argc, argv);
    set_fault_rank(runtime.rank());
    try {
        return work(runtime);
    } catch (const Error& error) {
        return runtime.report(error);
    } catch (const std::exception& error) {
        return runtime.report(Error(ErrorCategory::internal, error.what()));
    }
}

int dispatch(int argc, char** argv) {
    check_fault_variable();
    std::signal(SIGXFSZ,
                SIG_IGN); // a limit on file sizes is an error of the write, not the end of the process
    const std::vector<std::string> line(argv + std::min(argc, 1), argv + argc);
    const std::string name = line.empty() ? "" : line[0];
    const std::string family = options::is_family(name) ? name : "";
    const std::string of_family = family.empty() || line.size() < 2 ? "" : line[1];
    if (is_help(name) || is_help(of_family))
        return say(options::usage_text(family));
    if (name == "info" || name == "--version")
        return say(info());
    const std::optional<options::NamedCommand> command = options::find_command(line);
    if (!command) {
        const std::string typed = concat(name, of_family.empty() ? "" : " ", of_family);
        const bool incomplete = name.empty() || (!family.empty() && of_family.empty());
        const Error wrong(ErrorCategory::usage,
                          incomplete ? concat("no command was given", family.empty() ? "" : " after ", family)
                                     : concat("there is no command ", typed),
                          {concat("try: trireme ", family, family.empty() ? "" : " ", "--help")});
        if (!number_from_launcher())
            throw wrong;
        return run_as_one_of_many(argc, argv, [&](comm::Runtime& runtime) {
            comm::agree(runtime.world(), [&] { throw wrong; });
            return wrong.exit_code();
        });
    }
    const std::vector<std::string> arguments(line.begin() + static_cast<std::ptrdiff_t>(command->words),
                                             line.end());
    const options::Parsed parsed = options::parse(command->command, arguments);
    if (parsed.help_requested)
        return say(options::help_text(command->command));
    if (command->command == options::Command::plan)
        return number_from_launcher().value_or(0) == 0 ? foresee(arguments) : 0;
    if (!family.empty())
        return number_from_launcher().value_or(0) == 0 ? run_checkpoint_tool(parsed) : 0;
    return run_as_one_of_many(
        argc, argv, [&](comm::Runtime& runtime) { return run(command->command, arguments, runtime); });
}

} // namespace
} // namespace trireme

int main(int argc, char** argv) {
    try {
        return trireme::dispatch(argc, argv);
    } catch (const trireme::Error& error) {
        return trireme::report_without_mpi(error);
    } catch (const std::exception& error) {
        std::cerr << trireme::Error(trireme::ErrorCategory::internal, error.what()).message();
        return 1;
    }
}
