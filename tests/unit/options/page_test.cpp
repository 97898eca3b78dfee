// docs/options.md and docs/trireme.1 are what the table says. TRIREME_WRITE_DOCS=1 writes them anew instead
// of comparing.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "trireme/base/file.hpp"
#include "trireme/options/parse.hpp"

namespace trireme::options {
namespace {

void expect_page(const char* path, const std::string& text) { // tests run in the root of the source tree
    if (std::getenv("TRIREME_WRITE_DOCS") != nullptr)
        std::ofstream(path) << text;
    EXPECT_EQ(read_file(path, ErrorCategory::data), text)
        << "stale: run TRIREME_WRITE_DOCS=1 build/tests/unit --gtest_filter='OptionsPage.*'";
}

TEST(OptionsPage, IsWhatTheTableSays) {
    expect_page("docs/options.md", options_page());
}

TEST(OptionsPage, ManualPageIsWhatTheTableSays) {
    expect_page("docs/trireme.1", manual_page());
}

} // namespace
} // namespace trireme::options
