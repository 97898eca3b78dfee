// Rules of the type of weights and activations, and of the loss scale that fp16 needs.
#include "options/checker.hpp"
#include "options/convert.hpp"
#include "trireme/base/error.hpp"

namespace trireme::options {
namespace {

// --bf16 and --fp16 are short for --params-dtype.
void check_short_name(Checker& check, std::string_view name, bool on) {
    Values& v = check.values;
    if (!on || !check.sound({name, "params-dtype"}) || v.params_dtype == name)
        return;
    if (check.given("params-dtype") && !check.inherited("params-dtype")) {
        check.complain(concat("--", name, " means --params-dtype ", name, ", not ", v.params_dtype),
                       {name, "params-dtype"}, "leave out one of the two");
        return check.spoil("params-dtype");
    }
    check.derive("params-dtype", v.params_dtype, std::string(name));
}

void check_loss_scale(Checker& check) {
    const Values& v = check.values;
    constexpr std::string_view kDynamic[] = {"initial-loss-scale", "min-loss-scale", "loss-scale-window",
                                             "hysteresis"};
    const auto needs_fp16 = [&](std::string_view name) {
        if (check.given(name) && check.sound({name}))
            check.complain(concat("--", name, " does nothing without --fp16"), {name, "params-dtype"},
                           concat("--fp16, or leave out --", name));
    };
    if (v.params_dtype != "fp16") {
        needs_fp16("loss-scale");
        for (const std::string_view name : kDynamic)
            needs_fp16(name);
        return;
    }
    if (v.loss_scale)
        for (const std::string_view name : kDynamic)
            if (check.given(name) && check.sound({name, "loss-scale"}))
                check.complain(concat("--", name, " does nothing beside a fixed --loss-scale"),
                               {name, "loss-scale"}, "leave out one of the two");
    if (v.min_loss_scale > v.initial_loss_scale && check.sound({"min-loss-scale", "initial-loss-scale"}))
        check.complain(concat("the lowest scale of the loss ", show(v.min_loss_scale), " is above the first ",
                              show(v.initial_loss_scale)),
                       {"min-loss-scale", "initial-loss-scale"},
                       concat("--min-loss-scale ", show(v.initial_loss_scale)));
}

} // namespace

void check_precision(Checker& check) {
    Values& v = check.values;
    if (v.bf16 && v.fp16) {
        check.complain("weights have one type", {"bf16", "fp16"}, "leave out one of the two");
        return check.spoil("params-dtype");
    }
    check_short_name(check, "bf16", v.bf16);
    check_short_name(check, "fp16", v.fp16);
    if (check.command == Command::pretrain && check.sound({"params-dtype"}))
        check_loss_scale(check);
}

} // namespace trireme::options
