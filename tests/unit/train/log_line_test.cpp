// The lines of the log, letter by letter: Megatron-LM's fields in its order, then ours (DESIGN.md section 6).
// The JSON twins are read back by simdjson and must give the same bits.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <simdjson.h>
#include <string_view>

#include "trireme/train/log_line.hpp"

namespace trireme::train {

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

IterationLine example() {
    IterationLine line;
    line.time = "2026-11-29 17:49:13";
    line.iteration = 12010;
    line.train_iterations = 100000;
    line.consumed_samples = 384320;
    line.seconds_per_iteration = 0.5123;
    line.tokens_per_second = 127923.4;
    line.tflops_per_rank = 672.1;
    line.learning_rate = 1.4e-4;
    line.global_batch = 32;
    line.loss = 2.9312;
    line.gradient_norm = 0.4123;
    return line;
}

TEST(LogLine, IsMegatronsFieldForField) {
    EXPECT_EQ(format(example()),
              " [2026-11-29 17:49:13] iteration    12010/  100000 | consumed samples:       384320 | "
              "elapsed time per iteration (ms): 512.3 | tokens per second: 127923 | "
              "throughput per rank (TFLOP/s/rank): 672 | learning rate: 1.400000E-04 | "
              "global batch size:    32 | lm loss: 2.931200E+00 | loss scale: 1.0 | grad norm: 0.412 | "
              "number of skipped iterations:   0 | number of nan iterations:   0 | time left: 12 h 31 min");
}

// 87990 iterations x 0.5123 s = 45077 s = 12 h 31 min above; here nothing is left.
TEST(LogLine, LastIterationHasNoTimeLeft) {
    IterationLine line = example();
    line.iteration = line.train_iterations;
    EXPECT_TRUE(format(line).ends_with("| time left: 0.0 s")) << format(line);
}

TEST(LogLine, ShowsNanAndItsCounters) {
    IterationLine line = example();
    line.loss = kNan;
    line.gradient_norm = kInfinity;
    line.skipped_iterations = 2;
    line.nan_iterations = 13;
    const std::string text = format(line);
    EXPECT_NE(
        text.find("| lm loss: nan | loss scale: 1.0 | grad norm: inf | number of skipped iterations:   2 | "
                  "number of nan iterations:  13 |"),
        std::string::npos)
        << text;
}

TEST(LogLine, TakesTheWidestNumbers) {
    IterationLine line = example();
    line.iteration = line.train_iterations = line.consumed_samples = line.global_batch =
        std::numeric_limits<std::int64_t>::max();
    line.loss = line.gradient_norm = line.learning_rate = -std::numeric_limits<double>::max();
    line.tokens_per_second = line.seconds_per_iteration = line.tflops_per_rank = 1e9;
    const std::string text = format(line);
    EXPECT_NE(text.find("consumed samples: 9223372036854775807 |"), std::string::npos) << text;
    EXPECT_NE(text.find("lm loss: -1.797693E+308 |"), std::string::npos) << text;
    EXPECT_NE(text.find("grad norm: -1.798E+308 |"), std::string::npos) << text;
}

// exp(2.9312) = 18.7501...; exp(20) = 485165195.4 is the cap.
TEST(LogLine, EvaluationShowsLossAndPerplexity) {
    EXPECT_EQ(
        format_evaluation("validation", "iteration 100", std::log(18.75)),
        " validation loss at iteration 100 | lm loss value: 2.931194E+00 | lm loss PPL: 1.875000E+01 |");
    EXPECT_EQ(
        format_evaluation("test", "the end of training", 1234.5),
        " test loss at the end of training | lm loss value: 1.234500E+03 | lm loss PPL: 4.851652E+08 |");
    const std::string nan = format_evaluation("validation", "iteration 1", kNan);
    EXPECT_EQ(nan, " validation loss at iteration 1 | lm loss value: nan | lm loss PPL: nan |");
}

// Reads one line as JSON; fails on a field that is missing.
class Json {
  public:
    explicit Json(const std::string& text) : text_(text), root_(parser_.parse(text)) {}
    double number(std::string_view name) const {
        double value = 0;
        EXPECT_FALSE(root_[name].get(value)) << name << " in " << text_;
        return value;
    }
    std::int64_t integer(std::string_view name) const {
        std::int64_t value = 0;
        EXPECT_FALSE(root_[name].get(value)) << name << " in " << text_;
        return value;
    }
    std::string_view word(std::string_view name) const {
        std::string_view value;
        EXPECT_FALSE(root_[name].get(value)) << name << " in " << text_;
        return value;
    }

  private:
    simdjson::padded_string text_;
    simdjson::dom::parser parser_;
    simdjson::dom::element root_;
};

std::uint64_t bits(double value) {
    return std::bit_cast<std::uint64_t>(value);
}

TEST(LogLine, JsonHoldsTheSameBits) {
    IterationLine line = example();
    line.loss = std::nextafter(2.9312, 3);
    line.gradient_norm = 0.1 + 0.2;
    line.learning_rate = 1.0 / 3e4;
    line.skipped_iterations = 4;
    line.nan_iterations = 5;
    const std::string text = json(line);
    EXPECT_EQ(text.find('\n'), std::string::npos);
    const Json object(text);
    EXPECT_EQ(object.integer("iteration"), 12010);
    EXPECT_EQ(object.integer("consumed samples"), 384320);
    EXPECT_EQ(object.integer("global batch size"), 32);
    EXPECT_EQ(object.integer("skipped iterations"), 4);
    EXPECT_EQ(object.integer("nan iterations"), 5);
    EXPECT_EQ(bits(object.number("lm loss")), bits(line.loss));
    EXPECT_EQ(bits(object.number("grad norm")), bits(line.gradient_norm));
    EXPECT_EQ(bits(object.number("learning rate")), bits(line.learning_rate));
    EXPECT_EQ(bits(object.number("elapsed time per iteration (ms)")), bits(512.3));
    EXPECT_EQ(bits(object.number("tokens per second")), bits(127923.4));
    EXPECT_EQ(bits(object.number("throughput per rank (TFLOP/s/rank)")), bits(672.1));
    EXPECT_EQ(object.word("time"), "2026-11-29 17:49:13");
}

TEST(LogLine, JsonStaysJsonWithoutFiniteNumbers) {
    IterationLine line = example();
    line.loss = kNan;
    line.gradient_norm = -kInfinity;
    const Json object(json(line));
    EXPECT_EQ(object.word("lm loss"), "nan");
    EXPECT_EQ(object.word("grad norm"), "-inf");
    const Json evaluation(json_evaluation("validation", 10, 80, kInfinity));
    EXPECT_EQ(evaluation.word("validation loss"), "inf");
}

TEST(LogLine, JsonOfAnEvaluation) {
    const Json object(json_evaluation("test", 20, 160, std::log(3.0)));
    EXPECT_EQ(object.integer("iteration"), 20);
    EXPECT_EQ(object.integer("consumed samples"), 160);
    EXPECT_EQ(bits(object.number("test loss")), bits(std::log(3.0)));
    EXPECT_EQ(bits(object.number("test perplexity")), bits(std::exp(std::log(3.0))));
}

} // namespace

} // namespace trireme::train
