// What is read below /sys, from trees in tests/data/sysfs. Their README says where they come from.
#include <gtest/gtest.h>

#include "cluster/node.hpp"

namespace trireme::cluster {
namespace {

Roots tree(const char* name) {
    return {std::string("tests/data/sysfs/") + name, "/proc"};
}

TEST(Node, InterfacesOfThisKindOfMachine) {
    Facts facts;
    read_interfaces(tree("virtual-machine"), facts);
    EXPECT_EQ(facts.members("interface"), (std::vector<std::string>{"eth0", "ifb0", "ifb1", "lo"}));
    EXPECT_EQ(facts.text("interface.eth0.state"), "up");
    EXPECT_EQ(facts.text("interface.eth0.mtu"), "1400");
    EXPECT_FALSE(facts.has("interface.eth0.mbits")) << "-1: unknown";
    EXPECT_EQ(facts.text("interface.lo.state"), "up") << "unknown, but its flags say up";
    EXPECT_EQ(facts.text("interface.ifb0.state"), "down");
}

TEST(Node, InterfacesOfACluster) {
    Facts facts;
    read_interfaces(tree("infiniband"), facts);
    EXPECT_EQ(facts.members("interface"), (std::vector<std::string>{"eth0", "ib0", "ib1", "lo"}))
        << "bonding_masters is none";
    EXPECT_EQ(facts.text("interface.ib0.mbits"), "200000");
    EXPECT_EQ(facts.text("interface.ib1.state"), "down");
}

TEST(Node, PortsOfInfiniBand) {
    Facts facts;
    read_ports(tree("infiniband"), facts);
    EXPECT_EQ(facts.members("port"), (std::vector<std::string>{"mlx5_0:1", "mlx5_1:1"}));
    EXPECT_EQ(facts.text("port.mlx5_0:1.state"), "ACTIVE");
    EXPECT_EQ(facts.number("port.mlx5_0:1.gbits"), 200);
    EXPECT_EQ(facts.text("port.mlx5_0:1.link"), "InfiniBand");
    EXPECT_EQ(facts.text("port.mlx5_0:1.numa"), "0");
    EXPECT_FALSE(facts.has("port.mlx5_0:1.roce_gid"));
    EXPECT_EQ(facts.text("port.mlx5_1:1.state"), "DOWN");
    EXPECT_EQ(facts.text("port.mlx5_1:1.physical"), "Disabled");
}

TEST(Node, AddressesOfRoce) {
    Facts facts;
    read_ports(tree("roce"), facts);
    EXPECT_EQ(facts.text("port.mlx5_0:1.roce_gid"), "3") << "an IPv4 address before a link-local one";
    EXPECT_EQ(facts.text("port.mlx5_1:1.roce_gid"), "none") << "RoCE v1 alone";
}

TEST(Node, GpusAndTheirNearestPorts) {
    Facts facts;
    facts.set("gpu.0.pci", std::string("0000:3c:00.0"));
    facts.set("gpu.1.pci", std::string("0000:af:00.0"));
    facts.set("gpu.2.pci", std::string("0000:d8:00.0"));
    facts.set("gpu.3.pci", std::string("0000:ff:00.0")); // not there
    pair_gpus_with_ports(tree("infiniband"), facts);
    EXPECT_EQ(facts.text("gpu.0.nic"), "mlx5_0 (same switch)");
    EXPECT_EQ(facts.text("gpu.1.nic"), "mlx5_1 (same host bridge)");
    EXPECT_EQ(facts.text("gpu.2.nic"), "mlx5_1 (same NUMA node)");
    EXPECT_FALSE(facts.has("gpu.3.nic"));
}

TEST(Node, ThisMachine) {
    Facts facts;
    read_processor({}, facts);
    read_limits(facts);
    EXPECT_GE(facts.number("cores"), 1);
    EXPECT_GT(facts.number("memory_bytes"), facts.number("memory_available_bytes"));
    EXPECT_TRUE(facts.has("memlock_bytes") && facts.has("shm_free_bytes"));
    Facts none;
    read_ports({"/nonexistent", "/nonexistent"}, none);
    read_interfaces({"/nonexistent", "/nonexistent"}, none);
    EXPECT_TRUE(none.all().empty());
}

TEST(Facts, TravelWhole) {
    Facts facts;
    facts.set("empty", std::string());
    facts.set("odd", std::string("a=b\n\0c", 6));
    facts.set("figure", 1.5e-7);
    facts.set("count", std::int64_t{-3});
    facts.set("interface.eth0.100.mtu", std::int64_t{1});
    facts.set("interface.eth0.mbits", std::int64_t{1});
    facts.set("interface.eth0.mgmt.mtu", std::int64_t{1});
    facts.set("interface.eth0.mtu", std::int64_t{1});
    const Facts arrived = Facts::unpacked(facts.packed());
    EXPECT_EQ(arrived.all(), facts.all());
    EXPECT_EQ(arrived.number("figure"), 1.5e-7);
    EXPECT_EQ(arrived.number("count"), -3);
    EXPECT_EQ(arrived.number("odd"), std::nullopt);
    EXPECT_EQ(arrived.members("interface"), (std::vector<std::string>{"eth0.100", "eth0", "eth0.mgmt"}));
}

} // namespace
} // namespace trireme::cluster
