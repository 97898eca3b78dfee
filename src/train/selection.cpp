// Choosing a checkpoint by the options.
#include "selection.hpp"

#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "trireme/checkpoint/checkpoint.hpp"

namespace trireme::train {

checkpoint::Wanted wanted_checkpoint(const options::Resolved& options) {
    return {options.checkpoint.step,
            options.checkpoint.fall_back ? checkpoint::FallBack::yes : checkpoint::FallBack::no};
}

void warn_passed_over(const checkpoint::Selection& selection, const comm::Runtime& runtime) {
    if (runtime.rank() != 0 || selection.passed_over.empty() || !selection.checkpoint)
        return;
    const bool only_marker_missing = selection.marker_missing && selection.passed_over.size() == 1;
    std::cerr << "trireme: WARNING: " << selection.checkpoint->string()
              << (only_marker_missing ? " is loaded, the newest that is there\n"
                                      : " is loaded in place of a later checkpoint\n");
    for (const checkpoint::PassedOver& each : selection.passed_over)
        std::cerr << "  " << each.checkpoint.string() << ": " << each.reason << "\n";
    std::cerr << "  --no-load-fallback makes this an error, --ckpt-step N chooses another one" << std::endl;
}

namespace {

std::string model_options(const std::filesystem::path& checkpoint) {
    const options::Parsed parsed = options::parse(
        options::Command::evaluate, {}, {checkpoint::read_state(checkpoint).options, checkpoint.string()});
    return options::to_config(parsed.values, parsed.sources, options::Kept::model);
}

std::set<std::string> lines_of(const std::string& text) {
    std::set<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
        lines.insert(line);
    return lines;
}

} // namespace

void require_same_model_options(const std::filesystem::path& from, const std::filesystem::path& loaded) {
    const std::set<std::string> ours = lines_of(model_options(from)),
                                theirs = lines_of(model_options(loaded));
    std::vector<std::string> details;
    for (const auto& [here, there, name] : {std::tuple(&ours, &theirs, &from), {&theirs, &ours, &loaded}})
        for (const std::string& line : *here)
            if (!there->contains(line))
                details.push_back(concat(name->filename().string(), " alone has ", line));
    if (details.empty())
        return;
    details.push_back(
        "try: --ckpt-step with the iteration of the earlier one, which then says what the model is");
    throw Error(ErrorCategory::checkpoint,
                concat(from.string(), " is damaged, and the earlier ", loaded.filename().string(),
                       " was trained as another model"),
                details);
}

std::vector<std::string> differing_options(const std::string& saved, const options::Resolved& options) {
    const auto values_of = [](const std::string& text) {
        std::map<std::string, std::string> values;
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);)
            if (const std::size_t equals = line.find(" = "); equals != std::string::npos)
                values[line.substr(0, equals)] = line.substr(equals + 3);
        return values;
    };
    const auto before = values_of(saved),
               now = values_of(options::to_config(options.values, options.sources));
    std::vector<std::string> lines;
    for (const char* name : {"adam-beta1", "adam-beta2", "adam-eps", "clip-grad", "global-batch-size"}) {
        const auto old_value = before.find(name), new_value = now.find(name);
        if (old_value != before.end() && new_value != now.end() && old_value->second != new_value->second)
            lines.push_back(concat("--", name, " ", new_value->second, " (", options.sources.of(name),
                                   ") counts, the checkpoint was saved with ", old_value->second));
    }
    for (const char* name : {"eod-mask-loss", "reset-attention-mask", "reset-position-ids"}) { // flags
        const auto is_on = [&](const auto& values) {
            const auto found = values.find(name);
            return found != values.end() && found->second != "false";
        };
        if (is_on(before) != is_on(now))
            lines.push_back(concat("the checkpoint was saved ", is_on(before) ? "with" : "without", " --",
                                   name, ", this run trains ", is_on(now) ? "with" : "without", " it"));
    }
    return lines;
}

std::string first_words(const Error& error) {
    std::string text = error.what();
    if (!error.details().empty())
        text += concat("; ", error.details().front());
    return text;
}

} // namespace trireme::train
