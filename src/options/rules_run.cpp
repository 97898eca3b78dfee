// Rules of evaluation, checkpoints and the device: mostly options that would silently do nothing.
#include <algorithm>
#include <initializer_list>

#include "options/checker.hpp"
#include "options/resolved_values.hpp"
#include "trireme/base/error.hpp"
#include "trireme/options/checkpoint_tool.hpp"

namespace trireme::options {
namespace {

void check_needs(Checker& check, bool present, std::string_view needed,
                 std::initializer_list<std::string_view> dependents) {
    for (const std::string_view name : dependents)
        if (check.given(name) && !present && check.sound({name, needed}))
            check.complain(concat("--", name, " does nothing without --", needed), {name},
                           concat("give --", needed, ", or leave out --", name));
}

// A stop that saves is the rule in a Slurm job, and needs a place to save to.
void check_exit(Checker& check) {
    Values& v = check.values;
    if (v.exit_signal_handler && v.no_exit_signal_handler)
        check.complain("the signal handler is asked for and switched off",
                       {"exit-signal-handler", "no-exit-signal-handler"}, "leave out one of the two");
    else if (!v.exit_signal_handler && !v.no_exit_signal_handler && v.save && check.env.under_slurm)
        check.derive("exit-signal-handler", v.exit_signal_handler, true);
    check_needs(check, v.save.has_value(), "save", {"exit-signal-handler"});
    check_needs(check, v.exit_signal_handler, "exit-signal-handler", {"exit-signal"});
}

} // namespace

std::optional<std::int64_t> stripe_bytes(std::string_view text) {
    constexpr std::int64_t kUnit = 65536, kLimit = std::int64_t{1} << 32;
    const bool of_lfs = text.ends_with('K') || text.ends_with('M') || text.ends_with('G');
    const std::optional<std::int64_t> bytes = to_bytes(of_lfs ? concat(text, "iB") : std::string(text));
    return bytes && *bytes > 0 && *bytes < kLimit && *bytes % kUnit == 0 ? bytes : std::nullopt;
}

void check_run(Checker& check) {
    Values& v = check.values;
    if (check.command == Command::pretrain) {
        check_exit(check);
        if (check.given("eval-iters") && v.eval_iters > 0 && !v.eval_interval &&
            check.sound({"eval-iters", "eval-interval"}))
            check.complain("--eval-iters does nothing without --eval-interval", {"eval-iters"},
                           "--eval-interval 1000 (Megatron-LM's former default), or leave out --eval-iters");
        check_needs(check, v.save.has_value(), "save",
                    {"save-interval", "no-save-optim", "save-retain", "save-retain-interval",
                     "no-save-on-exit", "no-verify-save", "exit-on-save-failure", "async-save",
                     "save-stripe-count", "save-stripe-size"});
        if (v.save_stripe_size && !stripe_bytes(*v.save_stripe_size) && check.sound({"save-stripe-size"}))
            check.complain("the stripes of Lustre are multiples of 64 KiB below 4 GiB", {"save-stripe-size"},
                           "--save-stripe-size 4M");
        check_needs(check, v.async_save, "async-save", {"save-buffer-mb"});
        check_needs(check, v.save_interval.has_value(), "save-interval", {"save-retain-interval"});
        if (v.save_retain_interval && v.save_interval &&
            check.sound({"save-retain-interval", "save-interval"}) &&
            *v.save_retain_interval % *v.save_interval != 0)
            check.complain("--save-retain-interval must be a multiple of --save-interval",
                           {"save-retain-interval", "save-interval"},
                           concat("--save-retain-interval ",
                                  (*v.save_retain_interval / *v.save_interval + 1) * *v.save_interval));
        check_needs(check, v.load.has_value(), "load",
                    {"finetune", "no-load-optim", "no-load-rng", "exit-on-missing-checkpoint", "ckpt-step",
                     "no-load-fallback", "use-checkpoint-args", "use-checkpoint-opt_param-scheduler"});
        if (v.no_check_for_nan_in_loss_and_grad && check.given("check-for-nan-in-loss-and-grad"))
            check.complain("the check for NaN is asked for and switched off",
                           {"no-check-for-nan-in-loss-and-grad"}, "leave out one of the two",
                           concat("--check-for-nan-in-loss-and-grad (",
                                  check.sources.of("check-for-nan-in-loss-and-grad"), ")"));
    }
    if (v.search && !v.machine && check.sound({"search", "machine"}))
        check.complain("layouts are ranked by their predicted times, which depend on the machine", {"search"},
                       "--machine h100, or a file of your machine's rates");
    if (v.search_max_tensor_parallel && !v.search)
        check.complain("--search-max-tensor-parallel does nothing without --search",
                       {"search-max-tensor-parallel"}, "give --search, or leave it out");
    if (v.search && v.draw)
        check.complain("--search finds many layouts and --draw draws one", {"search", "draw"},
                       "one of them after the other");
    if (v.search && v.world_size && *v.search != *v.world_size)
        check.complain("--search names the number of GPUs too", {"search", "world-size"},
                       "leave out --world-size");
    if (v.rerun_nan && v.no_check_for_nan_in_loss_and_grad && check.command == Command::pretrain)
        check.complain("a run that goes on after a NaN does not look for its cause",
                       {"rerun-nan", "no-check-for-nan-in-loss-and-grad"}, "leave out one of the two");
    if (check.command == Command::evaluate && v.eval_iters == 0 && check.sound({"eval-iters"}))
        check.complain("there is nothing to evaluate", {"eval-iters"}, "--eval-iters 100");
    check_machine(check);
}

void check_machine(Checker& check) {
    Values& v = check.values;
    if (!check.sound({"device"}))
        return;
    const bool has_cuda = check.env.devices == DeviceSupport::cpu_and_cuda;
    if (!v.device)
        check.derive("device", v.device, has_cuda ? "cuda" : "cpu");
    else if (*v.device == "cuda" && !has_cuda)
        check.complain("this build of trireme has no CUDA", {"device"},
                       "--device cpu, or a build with CUDA=1");
    if (v.log_gpu && v.device == "cpu")
        check.complain("CPU ranks have no GPU to watch", {"log-gpu", "device"}, "leave out --log-gpu");
    if (v.no_deterministic && v.device == "cpu")
        check.complain("on CPUs sums always run in a fixed order", {"no-deterministic", "device"},
                       "leave --no-deterministic out");
    if (v.threads_per_rank == 0 && check.sound({"threads-per-rank"}))
        check.derive("threads-per-rank", v.threads_per_rank,
                     std::max<std::int64_t>(1, check.env.cores_on_node / check.env.ranks_on_node));
}

} // namespace trireme::options
