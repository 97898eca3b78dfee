// The trireme program: dispatches sub-commands, and is the one place where errors end.
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "preflight.hpp"
#include "trireme/backend/backend.hpp"
#include "trireme/base/build_info.hpp"
#include "trireme/checkpoint/checkpoint.hpp"
#include "trireme/cluster/slurm.hpp"
#include "trireme/comm/phase.hpp"
#include "trireme/comm/runtime.hpp"
#include "trireme/data/tokenizer.hpp"
#include "trireme/options/parse.hpp"
#include "trireme/options/resolve.hpp"
#include "trireme/train/generate.hpp"
#include "trireme/train/pretrain.hpp"
#include "versions.hpp"

namespace trireme {
namespace {

constexpr const char* kUsage = "usage: trireme COMMAND [OPTIONS]\n"
                               "  pretrain   train a GPT (start it with mpirun or srun)\n"
                               "  evaluate   loss and perplexity of a checkpoint\n"
                               "  generate   continue a prompt with a checkpoint\n"
                               "  preflight  whether these nodes are fit for a run\n"
                               "  info       how this program was built\n"
                               "trireme COMMAND --help lists the options of a command\n";

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

// The options of the checkpoint that --load names: evaluate and generate take the model's shape from there.
options::Inherited inherited_options(options::Command command, const std::vector<std::string>& arguments) {
    if (command == options::Command::pretrain)
        return {};
    const options::Parsed first = options::parse(command, arguments);
    if (!first.values.load)
        return {};
    const std::optional<std::filesystem::path> found = checkpoint::find_latest(*first.values.load);
    if (!found)
        return {};
    return {checkpoint::read_state(*found).options, found->string()};
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
    case options::Command::preflight:
        break; // above
    }
    TRIREME_ASSERT(false, "an unknown command");
    return 1;
}

std::optional<options::Command> command_named(const std::string& name) {
    for (const options::Command command : {options::Command::pretrain, options::Command::evaluate,
                                           options::Command::generate, options::Command::preflight})
        if (options::name_of(command) == name)
            return command;
    return std::nullopt;
}

// The number that a launcher gave this process, readable before MPI is started; nothing without a launcher.
std::optional<int> number_from_launcher() {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
        if (const char* text = std::getenv(name))
            return std::atoi(text);
    return std::nullopt;
}

// Says a text once, whatever the number of processes.
int say(const std::string& text) {
    if (number_from_launcher().value_or(0) == 0)
        std::cout << text << std::flush;
    return 0;
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
    try {
        return work(runtime);
    } catch (const Error& error) {
        return runtime.report(error);
    } catch (const std::exception& error) {
        return runtime.report(Error(ErrorCategory::internal, error.what()));
    }
}

int dispatch(int argc, char** argv) {
    const std::vector<std::string> arguments(argv + std::min(argc, 2), argv + argc);
    const std::string name = argc > 1 ? argv[1] : "";
    if (name == "--help" || name == "-h" || name == "help")
        return say(kUsage);
    if (name == "info" || name == "--version")
        return say(info());
    const std::optional<options::Command> command = command_named(name);
    if (!command) {
        const Error wrong(ErrorCategory::usage,
                          name.empty() ? "no command was given" : concat("there is no command ", name),
                          {"try: trireme --help"});
        if (!number_from_launcher())
            throw wrong;
        return run_as_one_of_many(argc, argv, [&](comm::Runtime& runtime) {
            comm::agree(runtime.world(), [&] { throw wrong; });
            return wrong.exit_code();
        });
    }
    if (options::parse(*command, arguments).help_requested)
        return say(options::help_text(*command));
    return run_as_one_of_many(argc, argv,
                              [&](comm::Runtime& runtime) { return run(*command, arguments, runtime); });
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
