// Each finding of a preflight from made-up facts: that it is found, where, and that nothing else is.
#include <gtest/gtest.h>

#include "cluster/judge.hpp"
#include "cluster/report.hpp"
#include "trireme/base/error.hpp"

namespace trireme::cluster {
namespace {

// Two nodes of two ranks, all well.
std::vector<RankFacts> healthy() {
    std::vector<RankFacts> ranks;
    for (int r = 0; r < 4; ++r) {
        RankFacts rank{r, r < 2 ? "node1" : "node2", r % 2 == 0, {}};
        Facts& f = rank.facts;
        f.set("version.trireme", std::string("0.1.0 (abc)"));
        f.set("matrix_gflops", 100.0 + r);
        f.set("save.write_mbs", 500.0);
        f.set("members.data", std::string(r % 2 == 0 ? "0,2" : "1,3"));
        f.set("place.data", std::string("across"));
        f.set("group.data.all-reduce.gbs", 10.0);
        f.set("group.data.all-reduce.wrong", std::int64_t{0});
        if (rank.speaks_for_node) {
            f.set("interface.eth0.state", std::string("up"));
            f.set("interface.ib0.state", std::string("up"));
            f.set("interface.lo.state", std::string("up"));
            f.set("port.mlx5_0:1.state", std::string("ACTIVE"));
            f.set("port.mlx5_0:1.physical", std::string("LinkUp"));
            f.set("port.mlx5_0:1.gbits", 400.0);
            f.set("memlock_bytes", std::int64_t{-1});
            f.set("shm_free_bytes", std::int64_t{1} << 30);
            f.set("memory_available_bytes", std::int64_t{1} << 34);
            f.set("clock_skew_seconds", 0.01);
            f.set("gpu.0.name", std::string("H200"));
            f.set("gpu.0.ecc_uncorrected", std::int64_t{0});
            f.set("gpu.0.throttle", std::string("no"));
            f.set("gpu.0.nvlinks_up", std::int64_t{18});
        }
        ranks.push_back(rank);
    }
    return ranks;
}

// What is found after a change to the facts of one rank; "; " between findings, "?" before warnings.
std::string after(int rank, const std::vector<std::pair<std::string, std::string>>& changes,
                  const std::string& expect = "") {
    std::vector<RankFacts> ranks = healthy();
    for (const auto& [name, value] : changes)
        ranks[static_cast<std::size_t>(rank)].facts.set(name, value);
    Expectations expected;
    expected.read(expect, "test");
    std::string text;
    for (const Finding& finding : judge(ranks, expected)) {
        text += (text.empty() ? "" : "; ") + std::string(finding.kind == Finding::Kind::warning ? "?" : "") +
                finding.what;
        EXPECT_FALSE(finding.cure.empty());
    }
    return text;
}

TEST(Judge, AHealthyMachine) {
    EXPECT_EQ(after(0, {}), "");
    EXPECT_EQ(
        after(0, {}, "slow-share = 0.9\nmatrix-gflops = 100 # all have it\nall-reduce-across-gbs = 9.9\n"),
        "");
}

TEST(Judge, OtherVersions) {
    EXPECT_EQ(after(3, {{"version.trireme", "0.2.0 (def)"}}),
              "trireme is not the same everywhere: 0.1.0 (abc) on node1, node2; 0.2.0 (def) on node2");
}

TEST(Judge, InterfacesThatAreNotThere) {
    EXPECT_EQ(after(2, {{"variable.NCCL_SOCKET_IFNAME", "ib"}}), "");
    EXPECT_EQ(after(2, {{"variable.NCCL_SOCKET_IFNAME", "hsn"}}),
              "NCCL_SOCKET_IFNAME=hsn names no interface on node2 (there are eth0, ib0, lo)");
    EXPECT_EQ(after(2, {{"variable.NCCL_SOCKET_IFNAME", "ib0"}, {"interface.ib0.state", "down"}}),
              "NCCL_SOCKET_IFNAME=ib0 names ib0 on node2, which is down");
    EXPECT_EQ(after(2, {{"variable.NCCL_SOCKET_IFNAME", "=ib"}}),
              "NCCL_SOCKET_IFNAME==ib names no interface on node2 (there are eth0, ib0, lo)");
    EXPECT_EQ(after(2, {{"variable.NCCL_SOCKET_IFNAME", "^docker"}}), "");
    EXPECT_EQ(after(2, {{"variable.OMPI_MCA_btl_tcp_if_include", "eth0,ib"}}), "");
    EXPECT_EQ(after(2, {{"variable.OMPI_MCA_btl_tcp_if_include", "eth"}}),
              "OMPI_MCA_btl_tcp_if_include=eth names no interface on node2 (there are eth0, ib0, lo)");
    EXPECT_EQ(after(2, {{"variable.OMPI_MCA_btl_tcp_if_include", "10.0.0.0/8"}}), "");
    EXPECT_EQ(after(0, {{"variable.NCCL_IB_HCA", "mlx5_0:1"}}), "");
    EXPECT_EQ(after(0, {{"variable.NCCL_IB_HCA", "mlx4"}}), "NCCL_IB_HCA=mlx4 names no device on node1");
}

TEST(Judge, Ports) {
    EXPECT_EQ(after(0, {{"port.mlx5_0:1.state", "DOWN"}, {"port.mlx5_0:1.physical", "Polling"}}),
              "port mlx5_0:1 on node1 is DOWN (Polling)");
    EXPECT_EQ(after(2, {{"port.mlx5_1:1.state", "DOWN"}, {"port.mlx5_1:1.physical", "Disabled"}}),
              "?port mlx5_1:1 on node2 is DOWN (Disabled)")
        << "one more than the others have is not missed";
    EXPECT_EQ(after(2, {{"port.mlx5_1:1.state", "ACTIVE"}, {"port.mlx5_1:1.gbits", "100"}}),
              "port mlx5_1:1 on node2 runs at 100 Gb/s, the others at 400");
    EXPECT_EQ(after(2, {{"port.mlx5_0:1.roce_gid", "none"}}),
              "?port mlx5_0:1 on node2 has no RoCE v2 address");
    EXPECT_EQ(after(2, {{"port.mlx5_0:1.roce_gid", "3"}}), "");
}

TEST(Judge, LimitsAndClocks) {
    EXPECT_EQ(after(0, {{"memlock_bytes", "65536"}}),
              "only 64.0 KiB of memory may be locked on node1, and its network needs that");
    EXPECT_EQ(after(0, {{"shm_free_bytes", "1048576"}}), "/dev/shm on node1 has 1.0 MiB free for 2 ranks");
    EXPECT_EQ(after(0, {{"memory_available_bytes", "536870912"}}),
              "?node1 has 512.0 MiB of memory free for 2 ranks");
    EXPECT_EQ(after(2, {{"clock_skew_seconds", "-2.5"}}),
              "?the clock of node2 is 2.5 s behind that of node1");
    EXPECT_EQ(after(2, {{"clock_skew_seconds", "3600"}}),
              "the clock of node2 is 3.6e+03 s ahead of that of node1");
}

TEST(Judge, Gpus) {
    EXPECT_EQ(after(2, {{"gpu.0.ecc_uncorrected", "2"}}),
              "GPU 0 on node2 has had 2 uncorrected memory errors since its start");
    EXPECT_EQ(after(2, {{"gpu.0.throttle", "power brake"}}), "GPU 0 on node2 is held back: power brake");
    EXPECT_EQ(after(2, {{"gpu.0.name", "does not answer"}}), "GPU 0 on node2 does not answer");
    EXPECT_EQ(after(2, {{"gpu.0.nvlinks_up", "16"}}), "GPU 0 on node2 has 16 NVLinks up, the others 17")
        << "of two, the usual number is the middle";
}

TEST(Judge, DriversThatAreTooOld) {
    EXPECT_EQ(after(2, {{"driver_cuda", "12.8"}}), "") << "this program has no CUDA";
    std::vector<RankFacts> ranks = healthy();
    for (RankFacts& rank : ranks)
        rank.facts.set("version.CUDA", std::string("13.1"));
    ranks[0].facts.set("driver_cuda", std::string("13.0"));
    ranks[2].facts.set("driver_cuda", std::string("14.2"));
    EXPECT_TRUE(judge(ranks, {}).empty());
    ranks[2].facts.set("driver_cuda", std::string("12.8"));
    EXPECT_EQ(judge(ranks, {}).at(0).what,
              "the driver of node2 runs CUDA 12.8, and this program was built with 13.1");
}

TEST(Judge, Storage) {
    EXPECT_EQ(after(3, {{"save.trouble", "cannot use --save DIR (No space left on device)"}}),
              "cannot use --save DIR (No space left on device): rank 3 (node2)");
    EXPECT_EQ(after(3, {{"save.write_mbs", "100"}}),
              "rank 3 (node2) writes to --save at 100 MB/s, the others at 500");
    EXPECT_EQ(after(3, {{"data.trouble", "cannot read a.bin (No such file or directory)"}}),
              "cannot read a.bin (No such file or directory): rank 3 (node2)");
    std::vector<RankFacts> ranks = healthy();
    for (RankFacts& rank : ranks)
        rank.facts.set("data.bytes.a.bin", std::int64_t{rank.rank == 1 ? 10 : 12});
    EXPECT_EQ(judge(ranks, {}).at(0).what, "a.bin is not the same file for all: 10 bytes for rank 1 (node1); "
                                           "12 bytes for rank 0 (node1), rank 2 (node2), rank 3 (node2)");
}

TEST(Judge, SlowRanks) {
    EXPECT_EQ(after(1, {{"matrix_gflops", "71"}}),
              "rank 1 (node1) multiplies matrices at 71 GFLOP/s, the others at 102")
        << "the middle of 100, 102, 103 is 102";
    EXPECT_EQ(after(1, {{"matrix_gflops", "72"}}), "");
    EXPECT_EQ(after(1, {{"matrix_gflops", "72"}}, "slow-share = 0.8"),
              "rank 1 (node1) multiplies matrices at 72 GFLOP/s, the others at 102");
    EXPECT_EQ(after(0, {}, "matrix-gflops = 100.5"),
              "rank 0 (node1) multiplies matrices at 100 GFLOP/s, expected are 100")
        << "three digits";
}

TEST(Judge, Groups) {
    EXPECT_EQ(after(3, {{"group.data.all-reduce.gbs", "2"}}),
              "all-reduce of the data group of ranks 1,3 (node1, node2) runs at 2 GB/s, others at 10");
    EXPECT_EQ(after(0, {}, "all-reduce-across-gbs = 20"),
              "all-reduce of the data group of ranks 0,2 (node1, node2) runs at 10 GB/s, expected are 20; "
              "all-reduce of the data group of ranks 1,3 (node1, node2) runs at 10 GB/s, expected are 20");
    EXPECT_EQ(after(0, {}, "all-reduce-inside-gbs = 20"), "") << "there is none inside a node";
    EXPECT_EQ(after(2, {{"group.data.all-reduce.wrong", "5"}}),
              "wrong sums: 5 elements of data.all-reduce on rank 2 (node2)");
}

TEST(Judge, TheWorstComeFirst) {
    const std::string found = after(2, {{"clock_skew_seconds", "2"}, // a warning
                                        {"save.write_mbs", "1"},
                                        {"group.data.all-reduce.wrong", "1"},
                                        {"variable.NCCL_SOCKET_IFNAME", "x"}});
    EXPECT_LT(found.find("wrong sums"), found.find("NCCL_SOCKET_IFNAME"));
    EXPECT_LT(found.find("NCCL_SOCKET_IFNAME"), found.find("writes to --save"));
    EXPECT_LT(found.find("writes to --save"), found.find("?the clock"));
}

TEST(Judge, ExpectationsAreReadOrRefused) {
    Expectations expected;
    EXPECT_EQ(expected.of("slow-share"), 0.7);
    for (const char* wrong :
         {"speed = 3", "slow-share 0.5", "slow-share = fast", "slow-share = 1 2", "slow-share = -1"})
        EXPECT_THROW(expected.read(wrong, "file"), Error) << wrong;
    try {
        expected.read("# a comment\n\nspeed = 3\n", "file");
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "file:3: no expectation is read from: speed = 3");
        EXPECT_EQ(error.exit_code(), 2);
    }
}

TEST(Report, VerdictsAndTables) {
    std::vector<RankFacts> ranks = healthy();
    const std::string good = table("4 ranks", ranks, {});
    EXPECT_TRUE(good.starts_with("preflight 4 ranks\n\nnode   ranks  cores"));
    EXPECT_NE(good.find("\ndata   across  0,2    10.0"), std::string::npos) << good;
    EXPECT_TRUE(good.ends_with("verdict   PASS\n"));
    ranks[3].facts.set("group.data.all-reduce.gbs", 2.0);
    EXPECT_NE(table("", ranks, {}).find("\ndata   across  1,3    2.00"), std::string::npos)
        << "the slowest rank's";
    const Finding warning{Finding::Kind::warning, 1, "w", "v"}, failure{Finding::Kind::failure, 1, "f", "c"};
    EXPECT_TRUE(table("", ranks, {warning})
                    .ends_with("warning   w\n          try: v\n\nverdict   PASS, with 1 warning\n"));
    EXPECT_TRUE(passes({warning}));
    EXPECT_FALSE(passes({failure, warning}));
    EXPECT_TRUE(table("", ranks, {failure, failure, failure, failure, warning})
                    .ends_with("verdict   FAIL: 4 failures, the worst three:\n"
                               "          1. f\n             try: c\n          2. f\n             try: c\n"
                               "          3. f\n             try: c\n"));
}

TEST(Report, Json) {
    RankFacts rank{0, "node\"1", true, {}};
    rank.facts.set("figure", 2.5);
    rank.facts.set("text", std::string("a\\b\nc"));
    rank.facts.set("zeros", std::string("007"));
    rank.facts.set("infinite", std::string("inf"));
    EXPECT_EQ(json({rank}, {{Finding::Kind::failure, 1, "w", "c"}}),
              "{\"verdict\": \"FAIL\", \"findings\": [{\"kind\": \"failure\", \"what\": \"w\", \"try\": "
              "\"c\"}], \"ranks\": "
              "[{\"rank\": 0, \"host\": \"node\\\"1\", \"figure\": 2.5, \"infinite\": \"inf\", \"text\": "
              "\"a\\\\b\\u000ac\", "
              "\"zeros\": \"007\"}]}\n");
}

} // namespace
} // namespace trireme::cluster
