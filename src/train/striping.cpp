// Asks and tells lfs, and says what came of it.
#include "striping.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include "trireme/base/error.hpp"
#include "trireme/base/file_system.hpp"
#include "trireme/base/printable.hpp"
#include "trireme/base/sizes.hpp"

namespace trireme::train {
namespace {

constexpr int kMostAdvised = 8; // targets; more are rarely worth their overhead

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words)
        text += concat(text.empty() ? "" : " ", word);
    return text;
}

// The number that lfs prints; nothing if it says more (a layout of several parts).
std::optional<std::int64_t> number_in(const CommandEnd& end) {
    if (!end.good())
        return std::nullopt;
    std::istringstream words(end.output);
    std::int64_t number = 0;
    std::string rest;
    return words >> number && !(words >> rest) ? std::optional(number) : std::nullopt;
}

// Its answer in one line, or what is wrong.
std::string answer_of(const CommandEnd& end) {
    const std::string text = end.good() ? printable(end.output) : "";
    return text.empty() ? end.complaint() : text;
}

std::string targets(std::int64_t count) {
    return count == -1 ? "all targets" : concat(count, count == 1 ? " target" : " targets");
}

} // namespace

std::vector<std::string> setstripe_command(const Stripes& stripes, const std::filesystem::path& directory) {
    std::vector<std::string> command{"lfs", "setstripe"};
    if (stripes.count != 0)
        command.insert(command.end(), {"-c", std::to_string(stripes.count)});
    if (stripes.size_bytes != 0)
        command.insert(command.end(), {"-S", std::to_string(stripes.size_bytes)});
    command.push_back(directory.string());
    return command;
}

std::vector<std::string> getstripe_command(const char* what, const std::filesystem::path& directory) {
    return {"lfs", "getstripe", "-d", what, directory.string()};
}

Striping::Striping(std::filesystem::path save, const Stripes& asked, int ranks_of_stage, Patience patience,
                   Run run)
    : save_(std::move(save)), asked_(asked), ranks_of_stage_(ranks_of_stage), patience_(patience),
      run_(std::move(run)) {
    if (this->asked() || ranks_of_stage_ > 1)
        found_ = call(getstripe_command("-c", save_), patience_.question_seconds);
}

CommandEnd Striping::call(const std::vector<std::string>& command, double seconds) {
    CommandEnd end = run_(command, seconds);
    hangs_ = end.fate == CommandFate::no_end;
    return end;
}

std::string Striping::hangs(const std::vector<std::string>& command, const CommandEnd& end) {
    return concat("`", joined(command), "` hangs (", end.complaint(),
                  "): lfs is not called again in this run, and ");
}

std::string Striping::options() const {
    std::string text;
    if (asked_.count != 0)
        text = concat("--save-stripe-count ", asked_.count);
    if (asked_.size_bytes != 0)
        text += concat(text.empty() ? "" : " and ", "--save-stripe-size ", asked_.size_bytes);
    return text;
}

std::optional<std::string> Striping::trouble() const {
    if (!asked() || found_->good())
        return std::nullopt;
    const bool several = asked_.count != 0 && asked_.size_bytes != 0;
    const std::string effect = concat(options(), several ? " are" : " is", " without effect");
    const std::vector<std::string> question = getstripe_command("-c", save_);
    if (hangs_)
        return concat(hangs(question, *found_), effect);
    const std::string type = file_system_type(save_);
    if (type == "lustre")
        return concat(save_.string(), " is on Lustre, but `", joined(question), "` fails (",
                      found_->complaint(), "): ", effect, "; try: the PATH to lfs");
    const std::string place = concat(save_.string(), " is on ", type.empty() ? "a file system" : type);
    if (found_->fate == CommandFate::not_started)
        return concat("lfs cannot be started (", found_->complaint(), ") and ", place, ": ", effect);
    return concat(place, ", which has no stripes: ", effect);
}

std::optional<std::string> Striping::advice() const {
    if (asked() || !found_ || number_in(*found_) != 1 || ranks_of_stage_ < 2)
        return std::nullopt;
    return concat(save_.string(),
                  " is on Lustre and each file of a checkpoint will lie on one target, which ",
                  ranks_of_stage_, " ranks write to; try: --save-stripe-count ",
                  std::min(ranks_of_stage_, kMostAdvised), " --save-stripe-size 4M");
}

StripeNews Striping::apply(const std::filesystem::path& directory) {
    if (!asked() || !found_->good() || hangs_)
        return {};
    const std::vector<std::string> command = setstripe_command(asked_, directory);
    const CommandEnd end = call(command, patience_.seconds);
    if (hangs_)
        return {{concat(hangs(command, end), "checkpoints are saved without ", options())}, ""};
    if (!end.good()) {
        if (std::exchange(failing_, true))
            return {};
        return {{concat("`", joined(command), "` fails (", end.complaint(),
                        "): the checkpoint is saved without ", options())},
                ""};
    }
    failing_ = false;
    return std::exchange(read_back_, true) ? StripeNews{} : read_back(directory);
}

StripeNews Striping::read_back(const std::filesystem::path& directory) {
    struct Value {
        const char* option;
        const char* flag;
        std::int64_t asked;
        std::string shown; // as lfs says it
    };
    std::array<Value, 2> values{{{"--save-stripe-count", "-c", asked_.count, ""},
                                 {"--save-stripe-size", "-S", asked_.size_bytes, ""}}};
    StripeNews news;
    for (Value& value : values) {
        const std::vector<std::string> question = getstripe_command(value.flag, directory);
        const CommandEnd end = call(question, patience_.seconds);
        if (hangs_) {
            news.warnings.push_back(
                concat(hangs(question, end), "later checkpoints are saved without ", options()));
            return news;
        }
        const std::optional<std::int64_t> found = number_in(end);
        if (found)
            value.shown = value.flag == std::string("-c") ? targets(*found) : show_bytes(*found);
        else
            value.shown = answer_of(end);
        if (value.asked != 0 && found != value.asked)
            news.warnings.push_back(concat(value.option, " ", value.asked, " was asked for, but `",
                                           joined(question), "` says ", answer_of(end)));
    }
    news.line = concat("stripes of new files in ", directory.string(), ": ", values[0].shown, ", ",
                       values[1].shown, " on each in turn");
    return news;
}

} // namespace trireme::train
