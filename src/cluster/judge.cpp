// The findings, one function for each kind of trouble.
#include "judge.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <sstream>

#include "trireme/base/error.hpp"
#include "trireme/base/sizes.hpp"

namespace trireme::cluster {
namespace {

using Kind = Finding::Kind;

std::string list_of(const std::vector<std::string>& items) {
    constexpr std::size_t kShown = 6;
    std::string text;
    for (std::size_t i = 0; i < std::min(items.size(), kShown); ++i)
        text += concat(i == 0 ? "" : ", ", items[i]);
    return items.size() > kShown ? concat(text, " and ", items.size() - kShown, " more") : text;
}

std::vector<std::string> split(const std::string& text, char at) {
    std::vector<std::string> parts;
    std::istringstream in(text);
    for (std::string part; std::getline(in, part, at);)
        parts.push_back(part);
    return parts;
}

double median(std::vector<double> values) {
    std::ranges::sort(values);
    const std::size_t n = values.size();
    return n == 0 ? 0 : n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

std::string short_number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", value);
    return text;
}

class Judge {
  public:
    Judge(const std::vector<RankFacts>& ranks, const Expectations& expected)
        : ranks_(ranks), expected_(expected) {}

    std::vector<Finding> run() {
        versions();
        interfaces();
        ports();
        limits();
        clocks();
        gpus();
        saving();
        data();
        matrix_rates();
        groups();
        std::ranges::stable_sort(findings_, [](const Finding& a, const Finding& b) {
            return std::pair(a.kind == Kind::failure, a.weight) >
                   std::pair(b.kind == Kind::failure, b.weight);
        });
        return std::move(findings_);
    }

  private:
    void add(Kind kind, int weight, std::string what, std::string cure) {
        findings_.push_back({kind, weight, std::move(what), std::move(cure)});
    }
    template <class Visit>
    void each_node(Visit visit) const {
        for (const RankFacts& rank : ranks_)
            if (rank.speaks_for_node)
                visit(rank);
    }
    std::set<std::string> names(const std::string& prefix) const {
        std::set<std::string> result;
        for (const RankFacts& rank : ranks_)
            for (const auto& [name, value] : rank.facts.all())
                if (name.starts_with(prefix))
                    result.insert(name);
        return result;
    }

    void versions() {
        for (const std::string& name : names("version.")) {
            std::map<std::string, std::vector<std::string>> where; // value, hosts
            for (const RankFacts& rank : ranks_)
                if (name != "version.driver" || rank.speaks_for_node) {
                    std::vector<std::string>& hosts = where[rank.facts.text(name)];
                    if (std::ranges::find(hosts, rank.host) == hosts.end())
                        hosts.push_back(rank.host);
                }
            if (where.size() < 2)
                continue;
            std::string what = concat(name.substr(8), " is not the same everywhere:");
            for (const auto& [value, hosts] : where)
                what += concat(what.back() == ':' ? " " : "; ", value.empty() ? "none" : value, " on ",
                               list_of(hosts));
            add(Kind::failure, 80, what,
                "load the same modules on all nodes, and start one binary from a shared directory");
        }
    }

    // Variables that choose network interfaces, against those that are there.
    void interfaces() {
        struct Choice {
            const char* variable;
            bool (*takes)(const std::string&, const std::string&);
        };
        const auto exactly = [](const std::string& rule, const std::string& name) {
            return std::ranges::count(split(rule, ','), name) > 0;
        };
        for (const Choice& choice :
             {Choice{"NCCL_SOCKET_IFNAME", nccl_takes}, Choice{"OMPI_MCA_btl_tcp_if_include", exactly},
              Choice{"OMPI_MCA_oob_tcp_if_include", exactly}})
            each_node([&](const RankFacts& node) {
                const std::string rule = node.facts.text(concat("variable.", choice.variable));
                if (rule.empty() || rule.find('/') != std::string::npos) // Open MPI takes subnets, too
                    return;
                std::vector<std::string> there, down;
                bool is_up = false;
                for (const std::string& name : node.facts.members("interface")) {
                    there.push_back(name);
                    if (!choice.takes(rule, name))
                        continue;
                    const bool up = node.facts.text(concat("interface.", name, ".state")) == "up";
                    is_up = is_up || up;
                    if (!up)
                        down.push_back(name);
                }
                const std::string setting = concat(choice.variable, "=", rule);
                if (!is_up && down.empty())
                    add(Kind::failure, 90,
                        concat(setting, " names no interface on ", node.host, " (there are ", list_of(there),
                               ")"),
                        concat("an interface that every node has, or leave ", choice.variable, " unset"));
                else if (!is_up)
                    add(Kind::failure, 90,
                        concat(setting, " names ", list_of(down), " on ", node.host, ", which is down"),
                        "another interface, or ask for that link to be brought up");
            });
    }

    void ports() {
        std::map<std::string, double> active; // by host
        std::vector<double> rates;
        each_node([&](const RankFacts& node) {
            double count = 0;
            for (const std::string& port : node.facts.members("port"))
                if (node.facts.text("port." + port + ".state") == "ACTIVE") {
                    ++count;
                    rates.push_back(node.facts.number("port." + port + ".gbits").value_or(0));
                }
            active[node.host] = count;
        });
        std::vector<double> counts;
        for (const auto& [host, count] : active)
            counts.push_back(count);
        const double usual_count = median(counts), usual_rate = median(rates);
        each_node([&](const RankFacts& node) {
            for (const std::string& port : node.facts.members("port")) {
                const std::string name = "port." + port + ".", state = node.facts.text(name + "state");
                const double gbits = node.facts.number(name + "gbits").value_or(0);
                const std::string where = concat("port ", port, " on ", node.host);
                if (state != "ACTIVE")
                    add(active[node.host] < usual_count ? Kind::failure : Kind::warning, 60,
                        concat(where, " is ", state, " (", node.facts.text(name + "physical"), ")"),
                        "ask for the cable and the switch port to be looked at, or leave the node out "
                        "(--exclude)");
                else if (gbits < usual_rate)
                    add(Kind::failure, 60,
                        concat(where, " runs at ", short_number(gbits), " Gb/s, the others at ",
                               short_number(usual_rate)),
                        "ask for the cable to be looked at, or leave the node out (--exclude)");
                if (state == "ACTIVE" && node.facts.text(name + "roce_gid") == "none")
                    add(Kind::warning, 50, concat(where, " has no RoCE v2 address"),
                        "NCCL_IB_HCA without it, or ask for an IP address on its interface");
            }
            const std::string rule = node.facts.text("variable.NCCL_IB_HCA");
            if (rule.empty() || rule[0] == '^')
                return;
            bool any = false;
            for (const std::string& port : node.facts.members("port"))
                any = any || nccl_takes(rule, port) || nccl_takes(rule, port.substr(0, port.find(':')));
            if (!any)
                add(Kind::failure, 85, concat("NCCL_IB_HCA=", rule, " names no device on ", node.host),
                    "a device that every node has, or leave NCCL_IB_HCA unset");
        });
    }

    void limits() {
        each_node([&](const RankFacts& node) {
            const auto ranks_here =
                static_cast<double>(std::ranges::count(ranks_, node.host, &RankFacts::host));
            const double memlock = node.facts.number("memlock_bytes").value_or(-1);
            if (memlock >= 0 && memlock < 1e9 && !node.facts.members("port").empty())
                add(Kind::failure, 70,
                    concat("only ", show_bytes(static_cast<std::int64_t>(memlock)),
                           " of memory may be locked on ", node.host, ", and its network needs that"),
                    "ulimit -l unlimited; under Slurm: PropagateResourceLimitsExcept=MEMLOCK, "
                    "LimitMEMLOCK=infinity of slurmd");
            const auto shm = node.facts.number("shm_free_bytes");
            if (shm && *shm < 8e6 * ranks_here)
                add(Kind::failure, 70,
                    concat("/dev/shm on ", node.host, " has ", show_bytes(static_cast<std::int64_t>(*shm)),
                           " free for ", ranks_here, " ranks"),
                    "remove what other jobs left there; in a container a larger one (--shm-size, "
                    "--ipc=host)");
            const auto memory = node.facts.number("memory_available_bytes");
            if (memory && *memory < 0.5e9 * ranks_here)
                add(Kind::warning, 40,
                    concat(node.host, " has ", show_bytes(static_cast<std::int64_t>(*memory)),
                           " of memory free for ", ranks_here, " ranks"),
                    "fewer ranks a node, or ask what else runs there");
        });
    }

    void clocks() {
        each_node([&](const RankFacts& node) {
            const double skew = node.facts.number("clock_skew_seconds").value_or(0);
            if (std::fabs(skew) > 1)
                add(std::fabs(skew) > 30 ? Kind::failure : Kind::warning, 30,
                    concat("the clock of ", node.host, " is ", short_number(std::fabs(skew)), " s ",
                           skew > 0 ? "ahead of" : "behind", " that of ", ranks_.front().host),
                    "ask for the node's time service (chrony, ntp) to be looked at");
        });
    }

    void gpus() {
        std::vector<double> links;
        each_node([&](const RankFacts& node) {
            for (const std::string& gpu : node.facts.members("gpu"))
                links.push_back(node.facts.number("gpu." + gpu + ".nvlinks_up").value_or(0));
        });
        const double usual_links = median(links);
        each_node([&](const RankFacts& node) {
            // Within a major version, an older driver runs a newer runtime.
            const auto runtime = node.facts.number("version.CUDA"), driver = node.facts.number("driver_cuda");
            if (runtime && driver && std::floor(*driver) < std::floor(*runtime))
                add(Kind::failure, 94,
                    concat("the driver of ", node.host, " runs CUDA ", node.facts.text("driver_cuda"),
                           ", and this program was built with ", node.facts.text("version.CUDA")),
                    "a program built with the CUDA of that driver (module avail cuda), or ask for a newer "
                    "driver");
            for (const std::string& gpu : node.facts.members("gpu")) {
                const std::string name = "gpu." + gpu + ".", where = concat("GPU ", gpu, " on ", node.host);
                const std::string leave_out = "leave the node out (--exclude) and tell the site";
                if (node.facts.text(name + "name") == "does not answer")
                    add(Kind::failure, 95, concat(where, " does not answer"), leave_out);
                if (const double errors = node.facts.number(name + "ecc_uncorrected").value_or(0); errors > 0)
                    add(Kind::failure, 92,
                        concat(where, " has had ", short_number(errors),
                               " uncorrected memory errors since its start"),
                        leave_out);
                if (const std::string why = node.facts.text(name + "throttle"); !why.empty() && why != "no")
                    add(Kind::failure, 65, concat(where, " is held back: ", why), leave_out);
                if (node.facts.number(name + "nvlinks_up").value_or(0) < usual_links)
                    add(Kind::failure, 75,
                        concat(where, " has ", node.facts.text(name + "nvlinks_up"),
                               " NVLinks up, the others ", short_number(usual_links)),
                        leave_out);
            }
        });
    }

    void saving() {
        std::map<std::string, std::vector<std::string>> trouble; // what, hosts
        std::vector<double> rates;
        for (const RankFacts& rank : ranks_) {
            if (const std::string what = rank.facts.text("save.trouble"); !what.empty()) {
                std::vector<std::string>& hosts = trouble[what];
                const std::string who = concat("rank ", rank.rank, " (", rank.host, ")");
                hosts.push_back(who);
            }
            if (const auto rate = rank.facts.number("save.write_mbs"))
                rates.push_back(*rate);
        }
        for (const auto& [what, who] : trouble)
            add(Kind::failure, 88, concat(what, ": ", list_of(who)),
                "--save on a file system that all nodes share, with rights and room (df -h, df -i, quota)");
        slow_ones("save.write_mbs", "writes to --save", "MB/s", "save-write-mbs", 35);
        slow_ones("save.read_mbs", "reads from --save", "MB/s", "save-read-mbs", 34);
    }

    void data() {
        std::map<std::string, std::vector<std::string>> trouble;
        for (const RankFacts& rank : ranks_)
            if (const std::string what = rank.facts.text("data.trouble"); !what.empty())
                trouble[what].push_back(concat("rank ", rank.rank, " (", rank.host, ")"));
        for (const auto& [what, who] : trouble)
            add(Kind::failure, 87, concat(what, ": ", list_of(who)),
                "--data-path on a file system that all nodes share");
        for (const std::string& name : names("data.bytes.")) {
            std::map<std::string, std::vector<std::string>> where;
            for (const RankFacts& rank : ranks_)
                if (rank.facts.has(name))
                    where[rank.facts.text(name)].push_back(concat("rank ", rank.rank, " (", rank.host, ")"));
            if (where.size() < 2)
                continue;
            std::string what = concat(name.substr(11), " is not the same file for all:");
            for (const auto& [bytes, who] : where)
                what += concat(what.back() == ':' ? " " : "; ", bytes, " bytes for ", list_of(who));
            add(Kind::failure, 87, what, "one copy on a shared file system, or the same copy on each node");
        }
        slow_ones("data.read_mbs", "reads from --data-path", "MB/s", "data-read-mbs", 33);
    }

    // Ranks whose figure is far below the median of the others, or below what is expected.
    void slow_ones(const std::string& fact, const std::string& what, const std::string& unit,
                   const std::string& expectation, int weight) {
        const double share = expected_.of("slow-share"), least = expected_.of(expectation);
        for (const RankFacts& rank : ranks_) {
            const auto own = rank.facts.number(fact);
            if (!own)
                continue;
            std::vector<double> others;
            for (const RankFacts& other : ranks_)
                if (other.rank != rank.rank && other.facts.number(fact))
                    others.push_back(*other.facts.number(fact));
            const double usual = median(others);
            const std::string who = concat("rank ", rank.rank, " (", rank.host, ") ", what, " at ",
                                           short_number(*own), " ", unit);
            if (!others.empty() && *own < share * usual)
                add(Kind::failure, weight, concat(who, ", the others at ", short_number(usual)),
                    "look what else runs there (top), leave the node out (--exclude), or --expect with a "
                    "lower slow-share");
            else if (*own < least)
                add(Kind::failure, weight, concat(who, ", expected are ", short_number(least)),
                    concat("leave the node out, or correct ", expectation, " in the --expect file"));
        }
    }

    void matrix_rates() { slow_ones("matrix_gflops", "multiplies matrices", "GFLOP/s", "matrix-gflops", 78); }

    // A group's figure is that of its slowest rank; groups of one kind and place are compared with each
    // other.
    void groups() {
        for (const std::string& fact : names("group.")) {
            if (fact.ends_with(".wrong"))
                for (const RankFacts& rank : ranks_)
                    if (rank.facts.number(fact).value_or(0) > 0)
                        add(Kind::failure, 100,
                            concat("wrong sums: ", rank.facts.text(fact), " elements of ",
                                   fact.substr(6, fact.size() - 12), " on rank ", rank.rank, " (", rank.host,
                                   ")"),
                            "leave this node out (--exclude) and tell the site: results of runs with it mean "
                            "nothing");
            if (!fact.ends_with(".gbs"))
                continue;
            const std::string group = fact.substr(6, fact.find('.', 6) - 6);
            const std::string operation = fact.substr(7 + group.size(), fact.size() - 11 - group.size());
            std::map<std::string, std::map<std::string, double>>
                by_place; // inside or across; members; slowest rank's
            std::map<std::string, std::string> hosts;
            for (const RankFacts& rank : ranks_) {
                const auto rate = rank.facts.number(fact);
                if (!rate)
                    continue;
                const std::string members = rank.facts.text("members." + group);
                auto& slowest =
                    by_place[rank.facts.text("place." + group)].try_emplace(members, *rate).first->second;
                slowest = std::min(slowest, *rate);
                if (hosts[members].find(rank.host) == std::string::npos)
                    hosts[members] += concat(hosts[members].empty() ? "" : ", ", rank.host);
            }
            for (const auto& [place, rates] : by_place)
                for (const auto& [members, rate] : rates) {
                    std::vector<double> others;
                    for (const auto& [other, its] : rates)
                        if (other != members)
                            others.push_back(its);
                    const std::string who =
                        concat(operation, " of the ", group, " group of ranks ", members, " (",
                               hosts[members], ") runs at ", short_number(rate), " GB/s");
                    const double least = expected_.of(concat(operation, "-", place, "-gbs"));
                    if (!others.empty() && rate < expected_.of("slow-share") * median(others))
                        add(Kind::failure, 72, concat(who, ", others at ", short_number(median(others))),
                            "see which interface is used (NCCL_DEBUG=INFO, NCCL_SOCKET_IFNAME, NCCL_IB_HCA), "
                            "or leave the node out");
                    else if (rate < least)
                        add(Kind::failure, 71, concat(who, ", expected are ", short_number(least)),
                            concat("see which interface is used (NCCL_DEBUG=INFO), or correct ", operation,
                                   "-", place, "-gbs in the --expect file"));
                }
        }
    }

    const std::vector<RankFacts>& ranks_;
    const Expectations& expected_;
    std::vector<Finding> findings_;
};

} // namespace

Expectations::Expectations() {
    values_["slow-share"] = 0.7;
    for (const char* name : {"matrix-gflops", "save-write-mbs", "save-read-mbs", "data-read-mbs"})
        values_[name] = 0;
    for (const char* operation : {"all-reduce", "reduce-scatter", "all-gather", "send-receive"})
        for (const char* place : {"inside", "across"})
            values_[concat(operation, "-", place, "-gbs")] = 0;
}

void Expectations::read(const std::string& text, const std::string& source) {
    std::istringstream lines(text);
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
        ++number;
        line = line.substr(0, line.find('#'));
        std::istringstream words(line);
        std::string name, equals, rest;
        double value = 0;
        if (!(words >> name))
            continue;
        const bool whole = words >> equals >> value && equals == "=" && !(words >> rest) && value >= 0;
        if (!whole || !values_.contains(name)) {
            std::string known;
            for (const auto& [other, its] : values_)
                known += concat(known.empty() ? "" : ", ", other);
            throw Error(ErrorCategory::usage,
                        concat(source, ":", number, ": no expectation is read from: ", line),
                        {"wanted: name = number", concat("the names: ", known)});
        }
        values_[name] = value;
    }
}

std::vector<Finding> judge(const std::vector<RankFacts>& ranks, const Expectations& expected) {
    return Judge(ranks, expected).run();
}

bool nccl_takes(const std::string& rule, const std::string& interface) {
    const bool all_but = rule.starts_with('^');
    std::string names = all_but ? rule.substr(1) : rule;
    const bool whole = names.starts_with('=');
    if (whole)
        names.erase(0, 1);
    for (const std::string& name : split(names, ','))
        if (!name.empty() && (whole ? interface == name : interface.starts_with(name)))
            return !all_but;
    // Left to itself or told what to avoid, NCCL leaves out the loopback.
    return all_but && interface != "lo";
}

} // namespace trireme::cluster
