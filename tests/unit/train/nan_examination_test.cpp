// Model or hardware: the verdict on what repetitions of a step have found.
#include <gtest/gtest.h>

#include "train/nan_examination.hpp"

namespace trireme::train {
namespace {

const std::vector<std::string> kHosts{"node1", "node1", "node2", "node2"};
using Phase = Flaw::Phase;

Flaws flaws(std::optional<Flaw> a, std::optional<Flaw> b, std::optional<Flaw> c, std::optional<Flaw> d) {
    return {std::move(a), std::move(b), std::move(c), std::move(d)};
}

TEST(NanExamination, TheSameAgainIsTheModel) {
    const Flaws found = flaws(Flaw{Phase::backward, 0, 1, ""}, std::nullopt, Flaw{Phase::forward, 3, 2, ""},
                              Flaw{Phase::forward, 3, 2, ""});
    const Error error = judge_flaws(12, "samples 0 to 7", {3}, found, found, kHosts);
    EXPECT_EQ(error.exit_code(), 7);
    EXPECT_STREQ(error.what(),
                 "loss or gradient is not finite in iteration 12, and again when the step is repeated: a "
                 "flaw of the model or its data, not of the hardware");
    EXPECT_EQ(error.details()[0],
              "first in the output of layer 2, micro-batch 3, on rank 2 (node2), rank 3 (node2)");
}

TEST(NanExamination, TheFirstOfAllIsNamed) {
    const auto first_of = [](Flaw a, Flaw b) {
        const Flaws found = flaws(std::move(a), std::move(b), std::nullopt, std::nullopt);
        return judge_flaws(1, "", {}, found, found, kHosts).details()[0];
    };
    EXPECT_EQ(first_of({Phase::forward, 1, 0, ""}, {Phase::forward, 0, 5, ""}),
              "first in the output of layer 5, micro-batch 0, on rank 1 (node1)");
    EXPECT_EQ(first_of({Phase::forward, 1, -1, ""}, {Phase::forward, 1, 0, ""}),
              "first in the output of the embedding, micro-batch 1, on rank 0 (node1)");
    EXPECT_EQ(first_of({Phase::backward, 0, 3, ""}, {Phase::backward, 0, 4, ""}),
              "first in the gradient behind layer 4, micro-batch 0, on rank 1 (node1)")
        << "gradients flow down";
    EXPECT_EQ(first_of({Phase::weight_gradient, 0, 0, "layers.0.mlp"}, {Phase::loss, 0, 0, ""}),
              "first in the loss, behind finite layers, on rank 1 (node1)");
    EXPECT_EQ(first_of({Phase::weight_gradient, 0, 0, "layers.1.mlp"},
                       {Phase::weight_gradient, 0, 0, "layers.0.mlp"}),
              "first in the gradient of layers.0.mlp, on rank 1 (node1)");
}

TEST(NanExamination, GoneOrElsewhereIsTheHardware) {
    const Flaws none = flaws(std::nullopt, std::nullopt, std::nullopt, std::nullopt);
    const Error gone = judge_flaws(12, "samples 0 to 7", {3}, none, none, kHosts);
    EXPECT_EQ(gone.exit_code(), 6);
    EXPECT_STREQ(gone.what(),
                 "loss or gradient is not finite in iteration 12, and not so when the same step is "
                 "repeated: a flaw of the hardware, not of the model");
    EXPECT_EQ(gone.details()[0],
              "first attempt: the loss was not finite on rank 3 (node2), at the end of its pipeline");
    EXPECT_EQ(gone.details()[1], "repeated: finite");
    const Flaws once = flaws(std::nullopt, Flaw{Phase::forward, 0, 4, ""}, std::nullopt, std::nullopt);
    const Error flickers = judge_flaws(12, "", {}, once, none, kHosts);
    EXPECT_EQ(flickers.exit_code(), 6);
    EXPECT_EQ(flickers.details()[0],
              "first attempt: the loss of every data replica was finite, a gradient was not");
    EXPECT_EQ(flickers.details()[1],
              "repeated: first in the output of layer 4, micro-batch 0, on rank 1 (node1)");
    EXPECT_EQ(flickers.details()[2], "repeated again: finite");
}

} // namespace
} // namespace trireme::train
