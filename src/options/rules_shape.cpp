// Rules of the shapes that came after GPT-2's. An option that would silently
// do nothing is an error; defaults that hold only beside another option are derived here.
#include <initializer_list>
#include <numeric>

#include "options/checker.hpp"
#include "trireme/base/error.hpp"

namespace trireme::options {
namespace {

constexpr std::string_view kType = "position-embedding-type";
constexpr std::string_view kAlias = "use-rotary-position-embeddings";

// Returns whether what follows from the kind of positions can be told.
bool check_position_embedding(Checker& check) {
    Values& v = check.values;
    if (!check.sound({kType, kAlias}))
        return false;
    if (v.use_rotary_position_embeddings && v.position_embedding_type != "rope") {
        if (check.given(kType)) {
            check.complain(concat("--", kAlias, " means --", kType, " rope, not ", v.position_embedding_type),
                           {kAlias, kType}, "leave out one of the two");
            check.spoil(kType);
            return false;
        }
        check.derive(kType, v.position_embedding_type, "rope");
    }
    if (check.given("no-position-embedding") && v.position_embedding_type == "learned_absolute")
        check.complain("learned positions are asked for and switched off", {kType},
                       concat("--", kType, " rope or none, or leave out --no-position-embedding"),
                       concat("--no-position-embedding (", check.sources.of("no-position-embedding"), ")"));
    return true;
}

void check_rotary(Checker& check) {
    Values& v = check.values;
    constexpr std::string_view kReset = "reset-position-ids";
    if (v.reset_position_ids && v.position_embedding_type == "none" && check.sound({kReset}))
        check.complain(concat("--", kReset, " does nothing with --", kType, " none"), {kReset, kType},
                       concat("leave out --", kReset));
    if (v.position_embedding_type != "rope") {
        for (const std::string_view name :
             {"rotary-base", "rotary-percent", "use-rope-scaling", "rope-scaling-factor"})
            if (check.given(name) && check.sound({name}))
                check.complain(concat("--", name, " does nothing without --", kType, " rope"), {name, kType},
                               concat("--", kType, " rope, or leave out --", name));
        return;
    }
    if (!v.rotary_base)
        check.derive("rotary-base", v.rotary_base, 10000);
    if (!v.rotary_percent)
        check.derive("rotary-percent", v.rotary_percent, 1);
    if (!v.use_rope_scaling && check.given("rope-scaling-factor") && check.sound({"rope-scaling-factor"}))
        check.complain("--rope-scaling-factor does nothing without --use-rope-scaling",
                       {"rope-scaling-factor"},
                       "give --use-rope-scaling, or leave out --rope-scaling-factor");
    if (v.use_rope_scaling && !v.rope_scaling_factor)
        check.derive("rope-scaling-factor", v.rope_scaling_factor, 8);

    if (!v.kv_channels ||
        !check.sound({"kv-channels", "rotary-percent", "hidden-size", "num-attention-heads"}))
        return;
    const auto rotated = static_cast<std::int64_t>(static_cast<double>(*v.kv_channels) * *v.rotary_percent);
    if (rotated < 2 || rotated % 2 != 0)
        check.complain(
            concat("rope rotates pairs: ", rotated, " of a head's ", *v.kv_channels,
                   " dimensions are not an even number of at least 2"),
            {"kv-channels", "rotary-percent"},
            "another --kv-channels (or hidden size or number of heads), or another --rotary-percent");
}

void check_groups(Checker& check) {
    Values& v = check.values;
    if (!check.sound({"group-query-attention", "num-query-groups"}))
        return;
    if (!v.group_query_attention) {
        if (check.given("num-query-groups")) {
            check.complain("--num-query-groups does nothing without --group-query-attention",
                           {"num-query-groups"},
                           "give --group-query-attention, or leave out --num-query-groups");
            check.spoil("num-query-groups");
        }
        return;
    }
    if (!v.num_query_groups)
        check.derive("num-query-groups", v.num_query_groups, 1);
    if (!v.num_attention_heads || !check.sound({"num-attention-heads"}) ||
        *v.num_attention_heads % *v.num_query_groups == 0)
        return;
    check.complain(concat(*v.num_attention_heads, " attention heads cannot be shared out to ",
                          *v.num_query_groups, " query groups: the number of heads must be a multiple of it"),
                   {"num-attention-heads", "num-query-groups"},
                   concat("--num-query-groups ", std::gcd(*v.num_attention_heads, *v.num_query_groups)));
    check.spoil("num-query-groups");
}

} // namespace

void check_shape(Checker& check) {
    if (check_position_embedding(check))
        check_rotary(check);
    check_groups(check);
}

} // namespace trireme::options
