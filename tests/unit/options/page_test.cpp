// docs/options.md is what the table says. TRIREME_WRITE_DOCS=1 writes it anew instead of comparing.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "trireme/base/file.hpp"
#include "trireme/options/parse.hpp"

namespace trireme::options {
namespace {

constexpr const char* kPage = "docs/options.md"; // tests run in the root of the source tree

TEST(OptionsPage, IsWhatTheTableSays) {
    if (std::getenv("TRIREME_WRITE_DOCS") != nullptr)
        std::ofstream(kPage) << options_page();
    EXPECT_EQ(read_file(kPage, ErrorCategory::data), options_page())
        << "stale: run TRIREME_WRITE_DOCS=1 build/tests/unit --gtest_filter='OptionsPage.*'";
}

} // namespace
} // namespace trireme::options
