// Each example of options that do not go together is one mistake, and its message names all options of the
// example and what to try. The message by itself is right where rules_test, shape_test and rates_test say so.
#include "options/conflicts.hpp"

#include <gtest/gtest.h>
#include <set>

#include "support.hpp"

namespace trireme::options {
namespace {

TEST(OptionConflicts, EachIsOneMistakeThatNamesItsOptions) {
    ASSERT_GT(conflicts().size(), 60U);
    std::set<std::string> seen;
    for (const Conflict& conflict : conflicts()) {
        const std::string message = message_of(conflict);
        ASSERT_NE(message, "") << conflict.arguments << " is taken";
        EXPECT_EQ(message.find("mistakes in the options"), std::string::npos)
            << conflict.arguments << ": " << message;
        EXPECT_TRUE(seen.insert(message).second) << "twice: " << message;
        EXPECT_NE(message.find("\n  try: "), std::string::npos) << message;
        // At least the option that cannot stand as it is; examples may bring others that lead there.
        bool named = false;
        for (const std::string& word : testing::words(conflict.arguments))
            named = named || (word.starts_with("--") && message.find(word + " ") != std::string::npos);
        EXPECT_TRUE(named) << conflict.arguments << ": " << message;
    }
}

} // namespace
} // namespace trireme::options
