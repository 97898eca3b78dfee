// Who holds what of the keys and values of few groups.
#include <gtest/gtest.h>

#include "trireme/base/error.hpp"
#include "trireme/catalogue/catalogue.hpp"

namespace trireme::catalogue {
namespace {

ModelConfig config_of(std::int64_t groups) {
    ModelConfig config;
    config.layers = 1;
    config.hidden = 16;
    config.heads = 8;
    config.groups = groups;
    config.head_dim = 2;
    config.ffn = 32;
    config.vocabulary = 50;
    config.max_positions = config.sequence = 4;
    return config;
}

TEST(Shard, FewGroupsHaveSeveralHolders) {
    constexpr int kTensor = 4;
    for (const std::int64_t groups : {1, 2, 4, 8}) {
        const int holders = groups < kTensor ? kTensor / static_cast<int>(groups) : 1;
        EXPECT_EQ(key_value_holders(config_of(groups), kTensor), holders);
        for (const Parameter& parameter : make_catalogue(config_of(groups), kTensor)) {
            const bool key_or_value = parameter.name.find("key") != std::string::npos ||
                                      parameter.name.find("value") != std::string::npos;
            std::int64_t first_holders = 0; // elements
            for (int rank = 0; rank < kTensor; ++rank) {
                const Shard held = shard(parameter, kTensor, rank);
                if (held.holder == 0)
                    first_holders += held.box.elements();
                EXPECT_EQ(held.holders, parameter.split_axis < 0 ? kTensor
                                        : key_or_value           ? holders
                                                                 : 1)
                    << parameter.name;
                if (!key_or_value)
                    continue;
                // The groups of the heads of this rank, heads in order of groups.
                const std::int64_t heads_a_rank = 8 / kTensor, heads_a_group = 8 / groups;
                EXPECT_EQ(held.box.axes[0].begin, rank * heads_a_rank / heads_a_group) << parameter.name;
                EXPECT_EQ(held.box.axes[0].end, ((rank + 1) * heads_a_rank - 1) / heads_a_group + 1);
                EXPECT_EQ(held.local.elements(), held.box.elements());
            }
            EXPECT_EQ(first_holders, parameter.elements()) << parameter.name << ", each element once";
        }
    }
    EXPECT_THROW(key_value_holders(config_of(3), kTensor), Error);
}

} // namespace
} // namespace trireme::catalogue
