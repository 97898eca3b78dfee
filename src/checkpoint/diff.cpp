// Compares two checkpoints, whatever layouts wrote them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <sstream>

#include "checkpoint/checkpoint_reader.hpp"
#include "trireme/checkpoint/tools.hpp"

namespace trireme::checkpoint {
namespace {

// `name = value` lines by name.
std::map<std::string, std::string> lines_of(const std::string& options) {
    std::map<std::string, std::string> values;
    std::istringstream text(options);
    for (std::string line; std::getline(text, line);) {
        const std::size_t sign = line.find(" = ");
        values[line.substr(0, sign)] = sign == std::string::npos ? "" : line.substr(sign + 3);
    }
    return values;
}

template <class Map>
std::set<std::string> names_of(const Map& a, const Map& b) {
    std::set<std::string> names;
    for (const Map& of : {a, b})
        for (const auto& [name, value] : of)
            names.insert(name);
    return names;
}

struct Counts {
    std::int64_t equal = 0, different = 0, missing = 0;
};

// The largest difference of two tensors of one shape, read piece by piece.
struct Largest {
    bool bits = false; // of the values as doubles; what one type rounds off is a difference of values
    double largest = 0;
    std::int64_t at = 0; // element

    void add(std::int64_t first, std::span<const double> a, std::span<const double> b) {
        for (std::size_t i = 0; i < a.size(); ++i) {
            if (std::memcmp(&a[i], &b[i], sizeof a[i]) == 0)
                continue;
            const double difference = a[i] == b[i] ? 0 : std::abs(a[i] - b[i]);
            if (!bits || !(difference <= largest)) { // NaN is the largest of all
                if (!std::isnan(largest)) {
                    largest = difference;
                    at = first + static_cast<std::int64_t>(i);
                }
            }
            bits = true;
        }
    }
};

std::string position(std::span<const std::int64_t> shape, std::int64_t element) {
    std::string text;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
        text = concat(element % shape[axis], text.empty() ? "" : ", ", text);
        element /= shape[axis];
    }
    return concat("[", text, "]");
}

class Comparison {
  public:
    Comparison(const std::filesystem::path& a, const std::filesystem::path& b, std::ostream& out)
        : a_(a), b_(b), out_(out) {}

    bool run() {
        out_ << "A  " << a_.path().string() << "\nB  " << b_.path().string() << "\n";
        texts("counters", counters(a_.state()), counters(b_.state()));
        texts("options", lines_of(a_.state().options), lines_of(b_.state().options));
        for (const std::string& group : a_.groups())
            compare_group(group);
        for (const std::string& group : b_.groups())
            if (!holds(a_, group))
                compare_group(group);
        out_.flush();
        a_.require_sums();
        b_.require_sums();
        return differ_;
    }

  private:
    static std::map<std::string, std::string> counters(const State& state) {
        return {{"iteration", concat(state.iteration)},
                {"consumed samples", concat(state.consumed_samples)},
                {"scheduled samples", concat(state.scheduled_samples)},
                {"optimizer steps", concat(state.optimizer_steps)},
                {"seed", concat(state.seed)}};
    }

    void texts(const char* title, const std::map<std::string, std::string>& a,
               const std::map<std::string, std::string>& b) {
        std::string lines;
        const auto shown = [](const std::map<std::string, std::string>& of, const std::string& name) {
            const auto found = of.find(name);
            return found == of.end() ? std::string("(absent)") : found->second;
        };
        for (const std::string& name : names_of(a, b))
            if (shown(a, name) != shown(b, name))
                lines += concat("  ", name, ": ", shown(a, name), " | ", shown(b, name), "\n");
        out_ << title << ": " << (lines.empty() ? "equal\n" : "differ, A | B\n") << lines;
        differ_ = differ_ || !lines.empty();
    }

    static bool holds(const CheckpointReader& contents, const std::string& group) {
        return std::ranges::find(contents.groups(), group) != contents.groups().end();
    }

    void compare_group(const std::string& group) {
        const std::string title = group.substr(1, group.size() - 2);
        if (!holds(a_, group) || !holds(b_, group)) {
            out_ << title << ": only in " << (holds(a_, group) ? "A" : "B") << "\n";
            differ_ = true;
            return;
        }
        Counts counts;
        std::string lines;
        for (const std::string& name : names_of(a_.tensors(), b_.tensors()))
            lines += compare_tensor(group, name, counts);
        out_ << title << ": " << counts.equal << " equal, " << counts.different << " differ, "
             << counts.missing << " missing\n"
             << lines;
        differ_ = differ_ || !lines.empty();
    }

    // A line, or nothing if all bits are equal.
    std::string compare_tensor(const std::string& group, const std::string& name, Counts& counts) {
        for (const CheckpointReader* of : {&a_, &b_})
            if (!of->tensors().contains(name)) {
                ++counts.missing;
                return concat("  ", name, ": only in ", of == &a_ ? "B" : "A", "\n");
            }
        const std::vector<std::int64_t>&a = a_.tensors().at(name).shape, &b = b_.tensors().at(name).shape;
        if (a != b) {
            ++counts.different;
            return concat("  ", name, ": ", Shape(a).text(), " | ", Shape(b).text(), "\n");
        }
        Largest difference;
        for_each_piece(topology::Box::whole(a).elements(), [&](const topology::Interval& piece) {
            difference.add(piece.begin, a_.values(group, name, piece), b_.values(group, name, piece));
        });
        std::string line =
            a_.type(group, name) == b_.type(group, name)
                ? ""
                : concat(trireme::name(a_.type(group, name)), " | ", trireme::name(b_.type(group, name)));
        if (difference.bits)
            line += concat(line.empty() ? "" : ", ", "largest difference ", difference.largest, " at ",
                           position(a, difference.at));
        if (line.empty()) {
            ++counts.equal;
            return "";
        }
        ++counts.different;
        return concat("  ", name, ": ", line, "\n");
    }

    CheckpointReader a_, b_;
    std::ostream& out_;
    bool differ_ = false;
};

} // namespace

bool differ(const std::filesystem::path& a, const std::filesystem::path& b, std::ostream& out) {
    return Comparison(a, b, out).run();
}

} // namespace trireme::checkpoint
