// Rules of learning rate and weight decay. Lengths are kept in samples, as Megatron-LM does: iterations times
// the global batch.
#include <algorithm>
#include <vector>

#include "options/checker.hpp"
#include "options/convert.hpp"
#include "trireme/base/error.hpp"

namespace trireme::options {
namespace {

// A length given in iterations or in samples: the two may not be mixed with the way training itself is
// counted.
void check_not_mixed(Checker& check) {
    const bool by_samples = check.given("train-samples");
    for (const std::string_view length : {"lr-decay", "lr-warmup", "lr-wsd-decay"}) {
        const std::string wrong = concat(length, by_samples ? "-iters" : "-samples");
        const std::string right = concat(length, by_samples ? "-samples" : "-iters");
        const std::string_view counted = by_samples ? "train-samples" : "train-iters";
        if (!check.given(wrong) || !check.given(counted) || !check.sound({wrong, counted}))
            continue;
        check.complain(concat("iterations and samples cannot be mixed: training is counted in ",
                              by_samples ? "samples" : "iterations"),
                       {wrong, counted}, concat("--", right));
        check.spoil(wrong);
    }
}

void check_warmup_start(Checker& check) {
    const Values& v = check.values;
    if (!check.given("lr-warmup-init") || !check.sound({"lr-warmup-init", "lr"}) || !v.lr)
        return;
    if (v.lr_warmup_init > *v.lr)
        return check.complain(concat("the warm-up starts at ", show(v.lr_warmup_init),
                                     ", above the highest rate ", show(*v.lr)),
                              {"lr-warmup-init", "lr"}, concat("--lr-warmup-init ", show(*v.lr / 100)));
    if (!check.given("lr-warmup-iters") && !check.given("lr-warmup-samples") &&
        !check.given("lr-warmup-fraction"))
        check.complain("--lr-warmup-init does nothing without a warm-up", {"lr-warmup-init"},
                       "--lr-warmup-iters N, or leave out --lr-warmup-init");
}

// Warm-up, stable, decay: the fall is the last part of the decay, after the warm-up.
void check_wsd(Checker& check, std::int64_t decay, std::int64_t warmup, bool by_samples) {
    Values& v = check.values;
    const auto& fall = by_samples ? v.lr_wsd_decay_samples : v.lr_wsd_decay_iters;
    const std::string_view name = by_samples ? "lr-wsd-decay-samples" : "lr-wsd-decay-iters";
    const std::string_view unit = by_samples ? " samples" : " iterations";
    if (!check.sound({"lr-decay-style", "lr-wsd-decay-style", "lr-wsd-decay-iters", "lr-wsd-decay-samples"}))
        return;
    if (v.lr_decay_style != "WSD") {
        for (const std::string_view dependent :
             {"lr-wsd-decay-style", "lr-wsd-decay-iters", "lr-wsd-decay-samples"})
            if (check.given(dependent))
                check.complain(concat("--", dependent, " does nothing without --lr-decay-style WSD"),
                               {dependent, "lr-decay-style"},
                               concat("--lr-decay-style WSD, or leave out --", dependent));
        return;
    }
    if (!fall)
        return check.complain("WSD needs the length of its fall", {"lr-decay-style", name},
                              concat("--", name, " ", std::max<std::int64_t>(1, decay / 10)));
    if (*fall > decay - warmup)
        check.complain(concat("a fall of ", *fall, unit, " and a warm-up of ", warmup,
                              " do not fit into a decay of ", decay),
                       {name, by_samples ? "lr-decay-samples" : "lr-decay-iters"},
                       concat("--", name, " ", std::max<std::int64_t>(1, (decay - warmup) / 10)));
}

} // namespace

void check_learning_rate(Checker& check) {
    Values& v = check.values;
    if (check.command != Command::pretrain)
        return;
    if (check.sound({"train-iters"}))
        check_not_mixed(check);
    if (v.lr && check.sound({"lr", "min-lr"}) && v.min_lr > *v.lr)
        check.complain(
            concat("the lowest learning rate ", show(v.min_lr), " is above the highest ", show(*v.lr)),
            {"min-lr", "lr"}, concat("--min-lr ", show(*v.lr / 10)));

    check_warmup_start(check);
    if (v.use_checkpoint_opt_param_scheduler && v.override_opt_param_scheduler)
        check.complain("on resuming, the rates follow the options or the checkpoint",
                       {"override-opt_param-scheduler", "use-checkpoint-opt_param-scheduler"},
                       "leave out one of the two");

    std::vector<std::string_view> warmups;
    for (const std::string_view name : {"lr-warmup-fraction", "lr-warmup-iters", "lr-warmup-samples"})
        if (check.given(name))
            warmups.push_back(name);
    if (!check.sound({"lr-warmup-fraction", "lr-warmup-iters", "lr-warmup-samples", "lr-decay-iters",
                      "lr-decay-samples"}))
        return;
    if (warmups.size() > 1)
        return check.complain("the warm-up has one length", {warmups[0], warmups[1]},
                              "leave out one of the two");

    if (!v.train_iters || !v.global_batch_size ||
        !check.sound({"train-iters", "train-samples", "global-batch-size"}))
        return;
    const bool by_samples = check.given("train-samples");
    const std::int64_t unit = by_samples ? 1 : *v.global_batch_size;
    auto& decay = by_samples ? v.lr_decay_samples : v.lr_decay_iters;
    auto& warmup = by_samples ? v.lr_warmup_samples : v.lr_warmup_iters;
    const std::string_view decay_name = by_samples ? "lr-decay-samples" : "lr-decay-iters";
    const std::string_view warmup_name = by_samples ? "lr-warmup-samples" : "lr-warmup-iters";
    if (!decay)
        check.derive(decay_name, decay, by_samples ? *v.train_samples : *v.train_iters);
    if (*decay > kMostSamples / unit)
        return check.complain("the length of the decay is beyond counting",
                              {decay_name, "global-batch-size"});
    if (warmup && *warmup >= *decay)
        check.complain(concat("a warm-up of ", *warmup, " is not shorter than the decay of ", *decay,
                              by_samples ? " samples" : " iterations"),
                       {warmup_name, decay_name}, concat("--", warmup_name, " ", *decay / 100));
    check_wsd(check, *decay, warmup.value_or(0), by_samples);
}

void check_weight_decay(Checker& check) {
    Values& v = check.values;
    constexpr std::string_view kStyle = "weight-decay-incr-style", kStart = "start-weight-decay",
                               kEnd = "end-weight-decay";
    if (check.command != Command::pretrain || !check.sound({kStyle, kStart, kEnd, "weight-decay"}))
        return;
    if (v.weight_decay_incr_style == "constant") {
        for (const std::string_view name : {kStart, kEnd})
            if (check.given(name))
                check.complain(concat("--", name, " does nothing while weight decay is constant"),
                               {name, kStyle}, concat("--", kStyle, " linear or cosine, or --weight-decay"));
        return;
    }
    if (!v.start_weight_decay || !v.end_weight_decay)
        return check.complain("weight decay that rises needs its start and its end", {kStyle, kStart, kEnd},
                              "--start-weight-decay X --end-weight-decay Y");
    if (*v.end_weight_decay < *v.start_weight_decay)
        check.complain(concat("weight decay does not rise from ", show(*v.start_weight_decay), " to ",
                              show(*v.end_weight_decay)),
                       {kStart, kEnd}, "a start that is not above the end");
    if (check.given("weight-decay"))
        check.complain("--weight-decay does nothing while weight decay rises", {"weight-decay", kStyle},
                       "leave out --weight-decay");
}

} // namespace trireme::options
