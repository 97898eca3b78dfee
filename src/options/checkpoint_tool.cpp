// Checks the few rules of the checkpoint tools.
#include "trireme/options/checkpoint_tool.hpp"

#include <array>
#include <cmath>
#include <utility>

#include "options/checker.hpp"
#include "options/convert.hpp"
#include "options/resolved_values.hpp"
#include "trireme/base/error.hpp"

namespace trireme::options {
namespace {

constexpr std::int64_t kSmallestShard = 1000;

} // namespace

std::optional<std::int64_t> to_bytes(std::string_view text) {
    constexpr std::array<std::pair<std::string_view, double>, 8> kUnits{{{"TiB", 1099511627776.0},
                                                                         {"GiB", 1073741824.0},
                                                                         {"MiB", 1048576.0},
                                                                         {"KiB", 1024.0},
                                                                         {"TB", 1e12},
                                                                         {"GB", 1e9},
                                                                         {"MB", 1e6},
                                                                         {"KB", 1e3}}};
    for (const auto& [unit, bytes] : kUnits) {
        if (!text.ends_with(unit))
            continue;
        const std::optional<double> number = to_number(text.substr(0, text.size() - unit.size()));
        const double product = number.value_or(-1) * bytes;
        if (!(product >= 0 && product < 1e18))
            return std::nullopt;
        return std::llround(product);
    }
    return to_integer(text);
}

CheckpointTool resolve_checkpoint_tool(const Parsed& parsed) {
    const Environment alone;
    Checker check(parsed, alone);
    const Values& v = check.values;
    check_required(check);
    const std::optional<std::int64_t> shard = to_bytes(v.max_shard_size);
    if (check.sound({"max-shard-size"}) && shard.value_or(0) < kSmallestShard)
        check.complain("--max-shard-size is a size of at least 1KB", {"max-shard-size"}, "5GB or 500MiB");
    if (v.vocab_file.has_value() != v.merge_file.has_value())
        check.complain("vocab.json and merges.txt go together", {"vocab-file", "merge-file"},
                       "give both, or none");
    else if (v.vocab_file && v.tokenizer_model)
        check.complain("a model has one tokenizer", {"vocab-file", "tokenizer-model"},
                       "leave out one of the two");
    throw_problems(check.problems());

    CheckpointTool tool{.command = parsed.command,
                        .paths = parsed.operands,
                        .norms = v.norms,
                        .load = v.load.value_or(""),
                        .save = v.save.value_or(""),
                        .step = v.ckpt_step,
                        .max_shard_bytes = *shard,
                        .type = std::nullopt,
                        .seq_length = v.seq_length,
                        .vocab_file = v.vocab_file.value_or(""),
                        .merge_file = v.merge_file.value_or(""),
                        .tokenizer_model = v.tokenizer_model.value_or("")};
    if (check.given("params-dtype"))
        tool.type = params_dtype_of(v);
    return tool;
}

Resolved::Model model_in(const Inherited& checkpoint) {
    const Parsed parsed = parse(Command::evaluate, {}, checkpoint);
    const Environment alone;
    Checker check(parsed, alone);
    for (const std::string_view name :
         {"num-layers", "hidden-size", "num-attention-heads", "seq-length", "max-position-embeddings"})
        if (!check.given(name) && check.sound({name}))
            check.complain_missing(
                concat(checkpoint.name, " has no option ", name),
                {"it does not describe a model", "try: trireme checkpoint inspect, or another checkpoint"});
    check_model(check);
    check_shape(check);
    throw_problems(check.problems());
    return model_of(check.values);
}

} // namespace trireme::options
