// How much a test does, by TRIREME_TEST_LEVEL: `make test` says quick, `make test-all` full. Where nothing is
// said, by hand, a test leaves out only what takes minutes.
#pragma once

#include <cstdlib>
#include <string_view>

namespace trireme::test {

inline bool level_is(std::string_view level) {
    const char* const said = std::getenv("TRIREME_TEST_LEVEL");
    return said != nullptr && said == level;
}
inline bool quick() {
    return level_is("quick");
}
inline bool full() {
    return level_is("full");
}

} // namespace trireme::test
