// Composes the report.
#include "report.hpp"

#include <algorithm>
#include <cstdio>
#include <set>

#include "trireme/base/error.hpp"
#include "trireme/base/sizes.hpp"

namespace trireme::cluster {
namespace {

using Row = std::vector<std::string>;

// Columns as wide as their widest cell.
std::string aligned(const std::vector<Row>& rows) {
    std::vector<std::size_t> widths;
    for (const Row& row : rows)
        for (std::size_t i = 0; i < row.size(); ++i) {
            widths.resize(std::max(widths.size(), i + 1));
            widths[i] = std::max(widths[i], row[i].size());
        }
    std::string text;
    for (const Row& row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i)
            line += concat(i == 0 ? "" : "  ", row[i], std::string(widths[i] - row[i].size(), ' '));
        text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text + "\n";
}

std::string figure(const Facts& facts, const std::string& name) {
    const auto value = facts.number(name);
    if (!value)
        return "-";
    char text[32];
    std::snprintf(text, sizeof text, "%.*f",
                  *value >= 100  ? 0
                  : *value >= 10 ? 1
                  : *value >= 1  ? 2
                                 : 3,
                  *value);
    return text;
}

std::string bytes(const Facts& facts, const std::string& name) {
    const auto value = facts.number(name);
    return !value ? "-" : *value < 0 ? "unlimited" : show_bytes(static_cast<std::int64_t>(*value));
}

std::string nodes_table(const std::vector<RankFacts>& ranks) {
    std::vector<Row> rows{{"node", "ranks", "cores", "memory", "free", "/dev/shm free", "lockable", "clock s",
                           "interfaces up (MTU)", "ports active (Gb/s)", "GPUs"}};
    for (const RankFacts& node : ranks) {
        if (!node.speaks_for_node)
            continue;
        const Facts& f = node.facts;
        std::string interfaces, ports, gpus;
        for (const std::string& name : f.members("interface"))
            if (f.text("interface." + name + ".state") == "up" && name != "lo")
                interfaces += concat(interfaces.empty() ? "" : " ", name, " (",
                                     f.text("interface." + name + ".mtu"), ")");
        for (const std::string& name : f.members("port"))
            if (f.text("port." + name + ".state") == "ACTIVE")
                ports += concat(ports.empty() ? "" : " ", name, " (", f.text("port." + name + ".gbits"), ")");
        for (const std::string& name : f.members("gpu"))
            gpus += concat(gpus.empty() ? "" : "; ", name, ": ", f.text("gpu." + name + ".name"),
                           f.has("gpu." + name + ".nic") ? ", NIC " + f.text("gpu." + name + ".nic") : "");
        rows.push_back({node.host, std::to_string(std::ranges::count(ranks, node.host, &RankFacts::host)),
                        f.text("cores"), bytes(f, "memory_bytes"), bytes(f, "memory_available_bytes"),
                        bytes(f, "shm_free_bytes"), bytes(f, "memlock_bytes"),
                        figure(f, "clock_skew_seconds"), interfaces.empty() ? "-" : interfaces,
                        ports.empty() ? "-" : ports, gpus.empty() ? "-" : gpus});
    }
    return aligned(rows);
}

std::string ranks_table(const std::vector<RankFacts>& ranks) {
    std::vector<Row> rows{
        {"rank", "node", "matrices GFLOP/s", "save: write MB/s", "read MB/s", "data: read MB/s"}};
    for (const RankFacts& rank : ranks)
        rows.push_back({std::to_string(rank.rank), rank.host, figure(rank.facts, "matrix_gflops"),
                        figure(rank.facts, "save.write_mbs"), figure(rank.facts, "save.read_mbs"),
                        figure(rank.facts, "data.read_mbs")});
    return aligned(rows);
}

std::string groups_table(const std::vector<RankFacts>& ranks) {
    const Row operations{"all-reduce", "reduce-scatter", "all-gather", "send-receive"};
    std::vector<Row> rows{{"group", "place", "ranks"}};
    for (const std::string& operation : operations)
        rows.front().push_back(operation + " GB/s");
    for (const char* group : {"tensor", "data", "pipeline"}) {
        std::set<std::string> shown;
        for (const RankFacts& first : ranks) {
            const std::string members = first.facts.text(concat("members.", group));
            if (members.empty() || !shown.insert(members).second)
                continue;
            Row row{group, first.facts.text(concat("place.", group)), members};
            for (const std::string& operation : operations) {
                const std::string name = concat("group.", group, ".", operation, ".gbs");
                const RankFacts* slowest = &first; // the group is as fast as its slowest rank
                for (const RankFacts& rank : ranks)
                    if (rank.facts.text(concat("members.", group)) == members &&
                        rank.facts.number(name).value_or(0) < slowest->facts.number(name).value_or(0))
                        slowest = &rank;
                row.push_back(figure(slowest->facts, name));
            }
            rows.push_back(row);
        }
    }
    return rows.size() == 1 ? "" : aligned(rows);
}

std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char c : text)
        if (c == '"' || c == '\\')
            result += concat('\\', c);
        else if (static_cast<unsigned char>(c) < 0x20) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
            result += escape;
        } else
            result += c;
    return result + "\"";
}

const char* name_of(Finding::Kind kind) {
    return kind == Finding::Kind::failure ? "failure" : "warning";
}

} // namespace

bool passes(const std::vector<Finding>& findings) {
    return std::ranges::none_of(findings, [](const Finding& f) { return f.kind == Finding::Kind::failure; });
}

std::string table(const std::string& title, const std::vector<RankFacts>& ranks,
                  const std::vector<Finding>& findings) {
    std::string text =
        concat("preflight ", title, "\n\n", nodes_table(ranks), ranks_table(ranks), groups_table(ranks));
    for (const Finding& finding : findings)
        text += concat(name_of(finding.kind), "   ", finding.what, "\n          try: ", finding.cure, "\n");
    if (!findings.empty())
        text += "\n";
    constexpr std::size_t kWorst = 3;
    const auto failures =
        static_cast<std::size_t>(std::ranges::count(findings, Finding::Kind::failure, &Finding::kind));
    const std::size_t warnings = findings.size() - failures;
    if (failures == 0)
        return text + (warnings == 0 ? "verdict   PASS\n"
                                     : concat("verdict   PASS, with ", warnings,
                                              warnings == 1 ? " warning\n" : " warnings\n"));
    text += concat("verdict   FAIL: ", failures, failures == 1 ? " failure" : " failures",
                   failures > kWorst ? ", the worst three:" : ":", "\n");
    for (std::size_t i = 0; i < std::min(failures, kWorst); ++i)
        text += concat("          ", i + 1, ". ", findings[i].what, "\n             try: ", findings[i].cure,
                       "\n");
    return text;
}

std::string json(const std::vector<RankFacts>& ranks, const std::vector<Finding>& findings) {
    std::string text =
        concat("{\"verdict\": ", passes(findings) ? "\"PASS\"" : "\"FAIL\"", ", \"findings\": [");
    for (const Finding& finding : findings)
        text +=
            concat(&finding == &findings.front() ? "" : ", ", "{\"kind\": ", quoted(name_of(finding.kind)),
                   ", \"what\": ", quoted(finding.what), ", \"try\": ", quoted(finding.cure), "}");
    text += "], \"ranks\": [";
    for (const RankFacts& rank : ranks) {
        text += concat(&rank == &ranks.front() ? "" : ", ", "{\"rank\": ", rank.rank,
                       ", \"host\": ", quoted(rank.host));
        for (const auto& [name, value] : rank.facts.all()) {
            // JSON's numbers begin with a digit and are finite; "007" and "inf" are text there.
            const bool is_number = rank.facts.number(name) &&
                                   value.find_first_not_of("-0123456789.e+") == std::string::npos &&
                                   (value.size() < 2 || value[0] != '0' || value[1] == '.');
            text += concat(", ", quoted(name), ": ", is_number ? value : quoted(value));
        }
        text += "}";
    }
    return text + "]}\n";
}

} // namespace trireme::cluster
