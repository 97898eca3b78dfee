// Formats the iteration and evaluation lines, and their JSON twins.
#include "trireme/train/log_line.hpp"

#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>

#include "trireme/base/error.hpp"
#include "trireme/base/sizes.hpp"

namespace trireme::train {
namespace {

[[gnu::format(printf, 1, 2)]] std::string print(const char* format, ...) {
    std::array<char, 256> text{};
    va_list arguments;
    va_start(arguments, format);
    const int length = std::vsnprintf(text.data(), text.size(), format, arguments);
    va_end(arguments);
    TRIREME_ASSERT(length >= 0 && static_cast<std::size_t>(length) < text.size(), "a log field is too long");
    return text.data();
}

std::string json_number(double value) {
    if (std::isnan(value))
        return "\"nan\"";
    if (std::isinf(value))
        return value > 0 ? "\"inf\"" : "\"-inf\"";
    return print("%.17g", value);
}

// Megatron-LM caps the exponent so that an untrained model does not overflow. NaN stays NaN.
double perplexity(double loss) {
    return std::exp(loss > 20 ? 20.0 : loss);
}

// Six decimals and an exponent, 2.931200E+00; what is not finite in lower case, as in all other places: nan,
// inf.
std::string scientific(double value) {
    return std::isfinite(value) ? print("%.6E", value) : print("%f", value);
}

// 0.412; a norm that has exploded would be hundreds of digits long.
std::string norm(double value) {
    return std::isfinite(value) && std::fabs(value) >= 1e9 ? print("%.3E", value) : print("%.3f", value);
}

} // namespace

std::string format(const IterationLine& line) {
    const double left =
        static_cast<double>(line.train_iterations - line.iteration) * line.seconds_per_iteration;
    return print(" [%s]", line.time.c_str()) +
           print(" iteration %8lld/%8lld |", static_cast<long long>(line.iteration),
                 static_cast<long long>(line.train_iterations)) +
           print(" consumed samples: %12lld |", static_cast<long long>(line.consumed_samples)) +
           print(" elapsed time per iteration (ms): %.1f |", 1e3 * line.seconds_per_iteration) +
           print(" tokens per second: %.0f |", line.tokens_per_second) +
           print(" throughput per rank (TFLOP/s/rank): %.3g |", line.tflops_per_rank) +
           concat(" learning rate: ", scientific(line.learning_rate), " |") +
           print(" global batch size: %5lld |", static_cast<long long>(line.global_batch)) +
           concat(" lm loss: ", scientific(line.loss), " |") + print(" loss scale: %.1f |", line.loss_scale) +
           concat(" grad norm: ", norm(line.gradient_norm), " |") +
           print(" number of skipped iterations: %3lld |", static_cast<long long>(line.skipped_iterations)) +
           print(" number of nan iterations: %3lld |", static_cast<long long>(line.nan_iterations)) +
           print(" time left: %s", show_duration(left).c_str());
}

std::string format_evaluation(const std::string& what, const std::string& where, double loss) {
    return concat(" ", what, " loss at ", where, " | lm loss value: ", scientific(loss),
                  " | lm loss PPL: ", scientific(perplexity(loss)), " |");
}

std::string json(const IterationLine& line) {
    return concat("{\"iteration\": ", line.iteration, ", \"consumed samples\": ", line.consumed_samples,
                  ", \"lm loss\": ", json_number(line.loss),
                  ", \"grad norm\": ", json_number(line.gradient_norm),
                  ", \"learning rate\": ", json_number(line.learning_rate),
                  ", \"global batch size\": ", line.global_batch,
                  ", \"elapsed time per iteration (ms)\": ", json_number(1e3 * line.seconds_per_iteration),
                  ", \"tokens per second\": ", json_number(line.tokens_per_second),
                  ", \"throughput per rank (TFLOP/s/rank)\": ", json_number(line.tflops_per_rank),
                  ", \"loss scale\": ", json_number(line.loss_scale),
                  ", \"skipped iterations\": ", line.skipped_iterations,
                  ", \"nan iterations\": ", line.nan_iterations, ", \"time\": \"", line.time, "\"}");
}

std::string json_evaluation(const std::string& what, std::int64_t iteration, std::int64_t consumed_samples,
                            double loss) {
    return concat("{\"iteration\": ", iteration, ", \"consumed samples\": ", consumed_samples, ", \"", what,
                  " loss\": ", json_number(loss), ", \"", what,
                  " perplexity\": ", json_number(perplexity(loss)), "}");
}

} // namespace trireme::train
