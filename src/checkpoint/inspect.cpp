// Shows a checkpoint to a person.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <ostream>
#include <sstream>

#include "checkpoint/checkpoint_reader.hpp"
#include "trireme/base/sizes.hpp"
#include "trireme/checkpoint/tools.hpp"

namespace trireme::checkpoint {
namespace {

struct Summary {
    double squares = 0, smallest = std::numeric_limits<double>::infinity(), largest = -smallest;
    std::int64_t not_finite = 0;

    void add(std::span<const double> values) {
        for (const double value : values) {
            if (!std::isfinite(value)) {
                ++not_finite;
                continue;
            }
            squares += value * value;
            smallest = std::min(smallest, value);
            largest = std::max(largest, value);
        }
    }
    std::string text() const {
        std::array<char, 128> line{};
        std::snprintf(line.data(), line.size(), "norm %-12.6g from %-12.6g to %-12.6g", std::sqrt(squares),
                      smallest, largest);
        std::string result = line.data();
        result.erase(result.find_last_not_of(' ') + 1);
        return not_finite == 0 ? result : concat(result, "  ", not_finite, " NOT FINITE");
    }
};

std::string row(const char* title, const std::string& text) {
    std::array<char, 32> name{};
    std::snprintf(name.data(), name.size(), "%-11s", title);
    return concat(name.data(), text, "\n");
}

// "/first_moment/" as people say it.
std::string plain(const std::string& group) {
    std::string text = group.substr(1, group.size() - 2);
    std::ranges::replace(text, '_', ' ');
    return text;
}

} // namespace

void inspect(const std::filesystem::path& path, TensorValues values, std::ostream& out) {
    CheckpointReader contents(path);
    const State& state = contents.state();
    out << row("checkpoint", contents.path().string())
        << row("written by", concat(state.program, ", format version ", contents.index().format_version,
                                    ", at ", state.layout))
        << row("iteration", concat(state.iteration, ", consumed samples ", state.consumed_samples,
                                   ", scheduled samples ", state.scheduled_samples, ", optimizer steps ",
                                   state.optimizer_steps, ", seed ", state.seed));
    // Element types by group; elements by the table.
    std::int64_t parameters = 0, bytes = 0;
    std::string holds;
    for (const std::string& group : contents.groups()) {
        std::string type;
        for (const auto& [tensor, entry] : contents.tensors()) {
            const DType found = contents.type(group, tensor);
            const std::int64_t elements = topology::Box::whole(entry.shape).elements();
            bytes += elements * size_bytes(found);
            parameters += &group == &contents.groups().front() ? elements : 0;
            if (type.empty())
                type = name(found);
            else if (type != name(found))
                type = "mixed";
        }
        holds += concat(holds.empty() ? "" : ", ", plain(group), " ", type);
    }
    out << row("holds", holds)
        << row("size", concat(contents.tensors().size(), " tensors, ", parameters, " parameters, ",
                              show_bytes(bytes), " in all groups"));
    out << "options\n";
    std::istringstream options(state.options);
    for (std::string line; std::getline(options, line);)
        out << "  " << line << "\n";
    std::size_t width = 0;
    for (const auto& [tensor, entry] : contents.tensors())
        width = std::max(width, tensor.size());
    for (const std::string& group : contents.groups()) {
        out << plain(group) << "\n";
        for (const auto& [tensor, entry] : contents.tensors()) {
            const std::string shape = Shape(entry.shape).text();
            out << "  " << tensor << std::string(width - tensor.size() + 2, ' ')
                << name(contents.type(group, tensor)) << "  stage " << entry.stage << "  " << shape;
            if (values == TensorValues::summarise) {
                Summary summary;
                for_each_piece(topology::Box::whole(entry.shape).elements(),
                               [&](const topology::Interval& piece) {
                                   summary.add(contents.values(group, tensor, piece));
                               });
                out << std::string(shape.size() < 18 ? 18 - shape.size() : 0, ' ') << "  " << summary.text();
            }
            out << "\n";
        }
        if (values == TensorValues::leave_aside) // the other groups have the same list
            break;
    }
    out.flush();
    contents.require_sums();
}

} // namespace trireme::checkpoint
