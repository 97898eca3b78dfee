// Gathers, measures, judges, reports. Every rank comes to every collective, whatever it finds on the way:
// findings are facts, not errors.
#include "trireme/cluster/preflight.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <iostream>

#include "judge.hpp"
#include "measure.hpp"
#include "node.hpp"
#include "report.hpp"
#include "storage_check.hpp"
#include "trireme/base/file.hpp"
#include "trireme/cluster/slurm.hpp"
#include "trireme/comm/phase.hpp"

namespace trireme::cluster {
namespace {

// Seconds that this rank's clock is ahead of rank 0's: all look at theirs as they leave a barrier; the middle
// of five.
double clock_skew(comm::HostGroup& world) {
    std::array<double, 5> skews{};
    for (double& skew : skews) {
        world.barrier();
        const double now =
            std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
        // Sums of one rank's value and zeros: that rank's, in fp64.
        double of_first = world.rank() == 0 ? now : 0;
        world.all_reduce({&of_first, 1}, comm::ReduceOp::max);
        skew = now - of_first;
    }
    std::ranges::sort(skews);
    return skews[2];
}

void read_node(Facts& facts) {
    const Roots roots = roots_of_this_machine();
    read_processor(roots, facts);
    read_interfaces(roots, facts);
    read_ports(roots, facts);
    read_limits(facts);
    read_gpus(facts);
    pair_gpus_with_ports(roots, facts);
    for (const char* name :
         {"NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include"})
        if (const std::optional<std::string> value = variable(name))
            facts.set(concat("variable.", name), *value);
}

std::vector<RankFacts> gather(const Facts& own, comm::Runtime& runtime) {
    std::vector<RankFacts> all;
    for (const std::string& packed : runtime.world().all_gather(own.packed())) {
        RankFacts rank;
        rank.rank = static_cast<int>(all.size());
        rank.host = runtime.hosts()[all.size()];
        rank.facts = Facts::unpacked(packed);
        rank.speaks_for_node = std::ranges::find(all, rank.host, &RankFacts::host) == all.end();
        all.push_back(std::move(rank));
    }
    return all;
}

// The first rank of this host, as gather() sees it.
bool speaks_for_node(const comm::Runtime& runtime) {
    const std::vector<std::string>& hosts = runtime.hosts();
    return std::ranges::find(hosts, runtime.host()) - hosts.begin() == runtime.rank();
}

} // namespace

int preflight(const PreflightSetup& setup, comm::Runtime& runtime, backend::Backend& backend) {
    comm::HostGroup& world = runtime.world();
    Expectations expected;
    comm::agree(world, [&] {
        if (!setup.expect.empty())
            expected.read(read_file(setup.expect, ErrorCategory::usage, {"--expect names it"}), setup.expect);
    });
    Facts facts;
    for (const auto& [name, version] : setup.versions)
        facts.set("version." + name, version);
    if (speaks_for_node(runtime)) {
        const comm::PhaseScope phase("reading the facts of the node");
        read_node(facts);
    }
    if (const double skew = clock_skew(world); speaks_for_node(runtime))
        facts.set("clock_skew_seconds", skew);
    measure_matrices(backend, facts);
    measure_groups(runtime, setup.grid, backend, facts);
    if (!setup.save.empty())
        check_saving(setup.save, runtime, facts);
    check_data(setup.data_files, facts);
    const std::vector<RankFacts> ranks = gather(facts, runtime);
    const std::vector<Finding> findings = judge(ranks, expected);
    if (world.rank() == 0) {
        const auto nodes = std::ranges::count(ranks, true, &RankFacts::speaks_for_node);
        const std::string title =
            concat(ranks.size(), ranks.size() == 1 ? " rank" : " ranks", " on ", nodes,
                   nodes == 1 ? " node: " : " nodes: ", setup.grid.text(), ", ", backend.description());
        std::cout << (setup.form == ReportForm::json ? json(ranks, findings) : table(title, ranks, findings))
                  << std::flush;
    }
    return passes(findings) ? 0 : static_cast<int>(ErrorCategory::device);
}

} // namespace trireme::cluster
