// The trireme program: dispatches sub-commands, and is the one place where errors end.
#include <csignal>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint_tools.hpp"
#include "trireme/backend/backend.hpp"
#include "trireme/base/build_info.hpp"
#include "trireme/base/fault.hpp"
#include "trireme/checkpoint/checkpoint.hpp"
#include "trireme/checkpoint/select.hpp"
#include "trireme/comm/phase.hpp"
#include "trireme/comm/runtime.hpp"
#include "trireme/options/parse.hpp"
#include "trireme/options/resolve.hpp"
#include "trireme/train/generate.hpp"
#include "trireme/train/pretrain.hpp"

namespace trireme {
namespace {

std::string info() {
    const BuildInfo& build = build_info();
    return concat("trireme   ", build.version, " (", build.commit, ")\n", "compiler  ", build.compiler, "\n",
                  "flags     ", build.flags, "\n", "devices   ", backend::has_cuda() ? "cpu, cuda" : "cpu",
                  "\n");
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

int run(options::Command command, const std::vector<std::string>& arguments, comm::Runtime& runtime) {
    options::Resolved resolved;
    comm::agree(runtime.world(), [&] {
        options::Environment environment;
        environment.devices =
            backend::has_cuda() ? options::DeviceSupport::cpu_and_cuda : options::DeviceSupport::cpu_only;
        environment.ranks = runtime.ranks();
        environment.launcher = runtime.started_by();
        environment.ranks_on_node = runtime.ranks_on_node();
        environment.cores_on_node = std::max(1u, std::thread::hardware_concurrency());
        resolved = options::resolve(options::parse(command, arguments, inherited_options(command, arguments)),
                                    environment);
    });
    const comm::Watchdog watchdog(
        runtime, std::chrono::duration<double>(resolved.machine.distributed_timeout).count());
    switch (command) {
    case options::Command::pretrain:
        return train::pretrain(resolved, runtime);
    case options::Command::evaluate:
        return train::evaluate(resolved, runtime);
    case options::Command::generate:
        return train::generate(resolved, runtime);
    default:
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
        std::cerr << error.message();
        return error.exit_code();
    } catch (const std::exception& error) {
        std::cerr << trireme::Error(trireme::ErrorCategory::internal, error.what()).message();
        return 1;
    }
}
