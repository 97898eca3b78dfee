// The lines about layout, model and memory that `trireme plan` and the first screen of a run share.
#pragma once

#include <span>
#include <string>

#include "trireme/plan/run_setup.hpp"
#include "trireme/topology/placement.hpp"
#include "trireme/topology/schedule.hpp"

namespace trireme::plan {

std::string fixed(double value, int decimals);
std::string screen_row(const char* title, const std::string& text); // "layout    8 ranks ...\n"

// "TP 4 x PP 2 x DP 1, 1f1b with 16 micro-batches, bubble 5.9 %": with all pieces equally long, or by their
// FLOPs where a split of the layers is asked for.
std::string layout_words(const RunSetup& setup, const topology::Schedule& schedule);
// With the layers of each stage, of each chunk in brackets: "(7 + 8 + 8 + 7)", "([3 and 4] + [4 and 3])".
std::string model_row(const RunSetup& setup, const topology::Placement& placement);
// Of the model, of the fullest stage with each logical parameter once, of the fullest rank with padding.
std::string parameters_row(const RunSetup& setup, double most_of_stage, double most_of_rank);
// "weights 1.6 GiB, gradients 3.2 GiB, ...": categories that take anything; bytes by memory::Category.
std::string memory_words(std::span<const std::int64_t> bytes);

} // namespace trireme::plan
