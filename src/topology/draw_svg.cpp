// A timeline as an SVG picture: a row a stage, a box a compute with its micro-batch number, coloured by what
// it does and lighter with each chunk; below it the axis of time, above it the totals and the legend. Boxes
// too narrow for their number have none; every box says in full what it is when a pointer rests on it.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <locale>

#include "schedule_parts.hpp"
#include "trireme/base/error.hpp"

namespace trireme::topology {

namespace {

constexpr double kLeft = 84, kRight = 104, kRow = 30, kBox = 24, kTop = 96;
constexpr double kDigit = 6.7; // px of a digit at the size of the box labels
constexpr double kNarrowest = 1000, kWidest = 12000;

struct Colour {
    int red, green, blue;
};

constexpr Colour kIdle{236, 236, 236};

Colour colour(Op op, int chunk, int chunks) {
    const Colour full = op == Op::forward           ? Colour{24, 84, 160}
                        : op == Op::weight_gradient ? Colour{190, 92, 12}
                                                    : Colour{22, 118, 74};
    // Up to 0.72 of the way to white, less for two chunks, which are told apart easily.
    const double white = chunks > 1 ? (chunks > 2 ? 0.72 : 0.5) * chunk / (chunks - 1) : 0;
    const auto mix = [&](int value) { return static_cast<int>(std::lround(value + white * (255 - value))); };
    return {mix(full.red), mix(full.green), mix(full.blue)};
}

std::string text(const Colour& c) {
    std::array<char, 8> hex{};
    std::snprintf(hex.data(), hex.size(), "#%02x%02x%02x", c.red & 255, c.green & 255, c.blue & 255);
    return hex.data();
}

// Black or white, whichever stands out on it (weights of the eye's sensitivity, ITU-R BT.601).
const char* ink(const Colour& c) {
    return 0.299 * c.red + 0.587 * c.green + 0.114 * c.blue > 140 ? "#111" : "#fff";
}

std::string fixed(double value, int decimals) {
    std::ostringstream out;
    out.imbue(std::locale::classic());
    out.setf(std::ios::fixed);
    out.precision(decimals);
    out << value;
    return out.str();
}
std::string px(double value) {
    return fixed(value, 1);
}

struct Unit {
    const char* name;
    double seconds;
};
Unit unit_for(double seconds) {
    return seconds >= 2 ? Unit{"s", 1} : seconds >= 2e-3 ? Unit{"ms", 1e-3} : Unit{"µs", 1e-6};
}

// 1, 2 or 5 times a power of ten, at least `least`.
double nice_step(double least) {
    const double power = std::pow(10, std::floor(std::log10(least)));
    for (const double factor : {1, 2, 5})
        if (factor * power >= least)
            return factor * power;
    return 10 * power;
}

class Chart {
  public:
    Chart(const Schedule& schedule, const Timeline& timeline)
        : schedule_(schedule), timeline_(timeline), unit_(unit_for(timeline.seconds)) {
        out_.imbue(std::locale::classic());
        // Wide enough for the numbers in the shortest boxes, within reason.
        double shortest = timeline.seconds;
        for (const auto& rank : timeline.ranks)
            for (const TimedInstruction& box : rank)
                if (box.end > box.start)
                    shortest = std::min(shortest, box.end - box.start);
        const double wish = label_width(schedule.micro_batches - 1) * timeline.seconds / shortest;
        plot_ = std::clamp(wish, kNarrowest, kWidest);
        bottom_ = kTop + kRow * static_cast<double>(timeline.ranks.size());
    }

    std::string draw() {
        const double width = kLeft + plot_ + kRight, height = bottom_ + 52;
        out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << px(width) << "\" height=\""
             << px(height) << "\" viewBox=\"0 0 " << px(width) << ' ' << px(height)
             << "\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n"
             << "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
        head();
        legend();
        for (std::size_t s = 0; s < timeline_.ranks.size(); ++s)
            rectangle(kLeft, top_of(s), plot_, kBox, kIdle);
        axis(); // its lines show wherever a stage idles and between the rows
        for (std::size_t s = 0; s < timeline_.ranks.size(); ++s)
            row(s);
        out_ << "</svg>\n";
        return out_.str();
    }

  private:
    static double label_width(int micro_batch) {
        return kDigit * static_cast<double>(std::to_string(micro_batch).size()) + 3;
    }
    double x(double seconds) const { return kLeft + plot_ * seconds / timeline_.seconds; }
    std::string time(double seconds) const {
        const double value = seconds / unit_.seconds;
        return fixed(value, value >= 100 ? 1 : value >= 10 ? 2 : 3);
    }

    void rectangle(double left, double top, double width, double height, const Colour& fill,
                   const std::string& title = {}) {
        out_ << "<rect x=\"" << fixed(left, 2) << "\" y=\"" << px(top) << "\" width=\"" << fixed(width, 2)
             << "\" height=\"" << px(height) << "\" fill=\"" << text(fill) << '"';
        if (title.empty())
            out_ << "/>\n";
        else
            out_ << " stroke=\"#fff\" stroke-width=\"0.7\"><title>" << title << "</title></rect>\n";
    }
    void label(double at, double base, const char* anchor, const std::string& words,
               const std::string& more = {}) {
        out_ << "<text x=\"" << px(at) << "\" y=\"" << px(base) << "\" text-anchor=\"" << anchor << '"'
             << more << '>' << words << "</text>\n";
    }

    void head() {
        label(kLeft, 26, "start",
              concat("Schedule ", name(schedule_.kind), ": ", schedule_.stages, " stages, ",
                     schedule_.micro_batches, " micro-batches",
                     schedule_.chunks > 1 ? concat(", ", schedule_.chunks, " chunks a stage") : ""),
              " font-size=\"17\" font-weight=\"bold\"");
        label(kLeft, 48, "start",
              concat(time(timeline_.seconds), ' ', unit_.name, " a step, bubble ",
                     fixed(100 * timeline_.bubble, 1), " %; numbers are micro-batches"));
    }

    void legend() {
        double at = kLeft;
        const auto words = [&](const std::string& what) {
            label(at, 77, "start", what);
            at += 7.2 * static_cast<double>(what.size()) + 16;
        };
        for (const Op op : {Op::forward, Op::backward, Op::input_gradient, Op::weight_gradient}) {
            if (!has(op))
                continue;
            for (int c = 0; c < schedule_.chunks; ++c) {
                const Colour fill = colour(op, c, schedule_.chunks);
                rectangle(at, 64, 20, 17, fill);
                if (schedule_.chunks > 1)
                    label(at + 10, 77, "middle", std::to_string(c), concat(" fill=\"", ink(fill), '"'));
                at += 22;
            }
            at += 4;
            std::string what{name(op)};
            std::replace(what.begin(), what.end(), '_', ' ');
            words(schedule_.chunks > 1 ? what + " of chunk" : what);
        }
        rectangle(at, 64, 20, 17, kIdle);
        at += 26;
        words("idle");
    }

    bool has(Op op) const {
        for (const auto& rank : timeline_.ranks)
            for (const TimedInstruction& box : rank)
                if (box.instruction.op == op)
                    return true;
        return false;
    }

    static double top_of(std::size_t stage) {
        return kTop + kRow * static_cast<double>(stage) + (kRow - kBox) / 2;
    }

    void row(std::size_t stage) {
        const double top = top_of(stage), base = top + 16.5;
        label(kLeft - 10, base, "end", concat("stage ", stage));
        double busy = 0;
        for (const auto& [instruction, start, end] : timeline_.ranks[stage]) {
            const double width = x(end) - x(start);
            const Colour fill = colour(instruction.op, instruction.chunk, schedule_.chunks);
            rectangle(
                x(start), top, width, kBox, fill,
                concat(topology::text(instruction), ": ", time(start), " to ", time(end), ' ', unit_.name));
            if (width >= label_width(instruction.micro_batch))
                label((x(start) + x(end)) / 2, base - 0.5, "middle", std::to_string(instruction.micro_batch),
                      concat(" font-size=\"12\" pointer-events=\"none\" fill=\"", ink(fill), '"'));
            busy += end - start;
        }
        label(kLeft + plot_ + 8, base, "start",
              concat("idle ", fixed(100 * (1 - busy / timeline_.seconds), 1), " %"), " font-size=\"12\"");
    }

    void axis() {
        const double step = nice_step(timeline_.seconds / unit_.seconds * 80 / plot_);
        const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
        for (int tick = 0; tick * step * unit_.seconds <= timeline_.seconds * (1 + 1e-9); ++tick) {
            const double at = x(tick * step * unit_.seconds);
            out_ << "<line x1=\"" << px(at) << "\" x2=\"" << px(at) << "\" y1=\"" << px(kTop) << "\" y2=\""
                 << px(bottom_ + 6) << "\" stroke=\"#000\" stroke-opacity=\"0.25\" stroke-width=\"1\"/>\n";
            label(at, bottom_ + 20, "middle", fixed(tick * step, decimals), " font-size=\"12\"");
        }
        out_ << "<line x1=\"" << px(kLeft) << "\" x2=\"" << px(kLeft + plot_) << "\" y1=\"" << px(bottom_)
             << "\" y2=\"" << px(bottom_) << "\" stroke=\"#444\"/>\n";
        label(kLeft, bottom_ + 42, "start", concat("time in ", unit_.name));
    }

    const Schedule& schedule_;
    const Timeline& timeline_;
    Unit unit_;
    double plot_ = 0, bottom_ = 0;
    std::ostringstream out_;
};

} // namespace

std::string draw_svg(const Schedule& schedule, const Timeline& timeline) {
    TRIREME_ASSERT(timeline.seconds > 0, "a chart of a step without duration");
    TRIREME_ASSERT(timeline.ranks.size() == static_cast<std::size_t>(schedule.stages), timeline.ranks.size(),
                   " timed stages of ", schedule.stages);
    return Chart(schedule, timeline).draw();
}

} // namespace trireme::topology
