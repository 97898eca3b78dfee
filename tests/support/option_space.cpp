// The factors, and the options layer as the judge of their combinations.
#include "support/option_space.hpp"

#include <sstream>

#include "trireme/base/error.hpp"

namespace trireme::test {
namespace {

// A gradient clip that bites, initial weights so large that every part of the model matters, a global batch
// that 1, 2, 3 and 4 data ranks share. The rate and Adam's epsilon keep rounding what it is: a gradient that
// is zero but for rounding (a key's bias where nothing is rotated) is divided by little more than epsilon.
constexpr const char* kFixed =
    "--hidden-size 16 --ffn-hidden-size 32 --num-attention-heads 4 --seq-length 12 --max-position-embeddings "
    "12 --vocab-size 60 --make-vocab-size-divisible-by 8 --tokenizer-type NullTokenizer --data-path none "
    "--init-method-std 0.2 --params-dtype fp64 --global-batch-size 12 --train-iters 20 --lr 0.005 "
    "--lr-decay-style constant --adam-eps 1e-7 --clip-grad 0.5 --device cpu --threads-per-rank 1";

std::string join(const Case& of, bool all) {
    std::string line = kFixed;
    for (std::size_t factor = 0; factor < factors().size(); ++factor) {
        const auto& [name, what, values] = factors()[factor];
        const std::string& value =
            values[all || what == Changes::model ? static_cast<std::size_t>(of[factor]) : 0];
        if (what != Changes::data_ranks && !value.empty())
            line += " " + value;
    }
    return line;
}

options::Parsed parse(const std::string& line) {
    std::istringstream in(line);
    std::vector<std::string> words;
    for (std::string word; in >> word;)
        words.push_back(word);
    return options::parse(options::Command::pretrain, words);
}

int ranks_of(const Case& of, const options::Values& values) {
    int data = 1;
    for (std::size_t factor = 0; factor < factors().size(); ++factor)
        if (factors()[factor].what == Changes::data_ranks)
            data = std::stoi(factors()[factor].values[static_cast<std::size_t>(of[factor])]);
    return data * static_cast<int>(values.tensor_model_parallel_size * values.pipeline_model_parallel_size);
}

options::Resolved resolve_on(const options::Parsed& parsed, int ranks) {
    return options::resolve(parsed, {.ranks = ranks, .ranks_on_node = ranks, .cores_on_node = ranks});
}

// The mistakes of a message one by one, with the options that each names: "2 mistakes in the options" has
// them as numbered lines with indented ones below, a single one is the message itself.
Broken mistakes_of(const Error& error) {
    const std::string what = error.what();
    Broken result;
    if (!what.ends_with(" mistakes in the options"))
        result.push_back(what);
    for (const std::string& line : error.details())
        if (what.ends_with(" mistakes in the options") && !line.starts_with(' '))
            result.push_back(line.substr(line.find(' ')));
        else
            result.back() += line;
    return result;
}

// Rules of the options that the case breaks, and one more if it needs more ranks than `most`.
Broken broken_rules(const Case& of, int most) {
    const options::Parsed parsed = parse(command_line(of));
    const int ranks = ranks_of(of, parsed.values);
    Broken result;
    try {
        resolve_on(parsed, ranks);
    } catch (const Error& error) {
        TRIREME_ASSERT(error.category() == ErrorCategory::usage, error.message());
        result = mistakes_of(error);
    }
    if (ranks > most)
        result.push_back(concat(ranks, " ranks"));
    return result;
}

std::vector<int> sizes() {
    std::vector<int> result;
    for (const Factor& factor : factors())
        result.push_back(static_cast<int>(factor.values.size()));
    return result;
}

} // namespace

const std::vector<Factor>& factors() {
    using enum Changes;
    static const std::vector<Factor> all{
        {"tensor", layout, {"", "--tensor-model-parallel-size 2", "--tensor-model-parallel-size 4"}},
        {"pipeline", layout, {"", "--pipeline-model-parallel-size 2", "--pipeline-model-parallel-size 4"}},
        {"data", data_ranks, {"1", "2", "3", "4"}},
        {"chunks",
         layout,
         {"", "--num-layers-per-virtual-pipeline-stage 1", "--num-layers-per-virtual-pipeline-stage 2",
          "--num-virtual-stages-per-pipeline-rank 2"}},
        {"schedule", layout, {"", "--pipeline-schedule gpipe", "--pipeline-schedule zb-h1"}},
        {"sequence", layout, {"", "--sequence-parallel"}},
        {"ZeRO-1", layout, {"", "--use-distributed-optimizer"}},
        {"reduction", layout, {"", "--overlap-grad-reduce"}},
        {"gather", layout, {"", "--overlap-param-gather"}},
        {"buckets", layout, {"", "--ddp-bucket-size 500"}},
        {"recompute",
         layout,
         {"", "--recompute-activations",
          "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
          "--recompute-granularity full --recompute-method uniform --recompute-num-layers 3",
          "--recompute-granularity full --recompute-method block --recompute-num-layers 1",
          "--recompute-granularity selective --recompute-modules layernorm mlp"}},
        {"split",
         layout,
         {"", "--decoder-first-pipeline-num-layers 1", "--decoder-last-pipeline-num-layers 1",
          "--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split",
          "--pipeline-model-parallel-layout auto"}},
        {"micro-batch", layout, {"--micro-batch-size 1", "--micro-batch-size 2"}},
        {"layers", model, {"--num-layers 4", "--num-layers 5", "--num-layers 8"}},
        {"positions",
         model,
         {"", "--position-embedding-type rope", "--position-embedding-type rope --rotary-percent 0.5",
          "--position-embedding-type none"}},
        {"norm", model, {"", "--normalization RMSNorm"}},
        {"MLP", model, {"", "--swiglu"}},
        {"groups",
         model,
         {"", "--group-query-attention --num-query-groups 2",
          "--group-query-attention --num-query-groups 1"}},
        {"output", model, {"", "--untie-embeddings-and-output-weights"}},
        {"biases", model, {"", "--disable-bias-linear", "--disable-bias-linear --add-qkv-bias"}},
        {"attention mask", model, {"", "--reset-attention-mask"}},
        {"position ids", model, {"", "--reset-position-ids"}},
        {"loss mask", model, {"", "--eod-mask-loss"}},
        {"hidden dropout", model, {"--hidden-dropout 0", "--hidden-dropout 0.1"}},
        {"attention dropout", model, {"--attention-dropout 0", "--attention-dropout 0.1"}},
    };
    return all;
}

std::string command_line(const Case& of) {
    return join(of, true);
}

std::string model_command_line(const Case& of) {
    return join(of, false);
}

int ranks_of(const Case& of) {
    return ranks_of(of, parse(command_line(of)).values);
}

options::Resolved resolve_line(const std::string& line, int ranks) {
    return resolve_on(parse(line), ranks);
}

Space option_space(int most_ranks) {
    return {.sizes = sizes(), .broken = [=](const Case& of) { return broken_rules(of, most_ranks); }};
}

std::string describe(const Pair& pair) {
    const auto text = [](const Choice& choice) {
        const Factor& factor = factors()[static_cast<std::size_t>(choice.factor)];
        const std::string& value = factor.values[static_cast<std::size_t>(choice.value)];
        return concat(factor.name, " '", value, "'");
    };
    return concat(text(pair.first), " with ", text(pair.second));
}

} // namespace trireme::test
