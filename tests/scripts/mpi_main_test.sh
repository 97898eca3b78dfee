#!/bin/bash
# An MPI test fails when it failed on any one rank, and rank 0 alone writes the results.
. tests/support/shell_test.sh
root=$PWD
library=$PWD/${BUILD:-build}/libtrireme.a
# The flags of MPI as the build found them.
found() { sed -n "s/^FOUND_$1 := //p" "$root/${BUILD:-build}/config.mk"; }
cd "$scratch" || exit 1
mkdir -p tests/layout build/tests/layout
cat >tests/layout/sample_test.cpp <<'END'
// ranks: 1 3
#include <gtest/gtest.h>
#include <mpi.h>
namespace {
int rank() {
    int value = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &value);
    return value;
}
TEST(Sample, passes_everywhere) {}
TEST(Sample, fails_on_rank_2) { EXPECT_NE(rank(), 2); }
TEST(Sample, passes_after_that) {}
} // namespace
END
# shellcheck disable=SC2046
if ! ${CXX:-g++} -std=c++20 -O0 -pthread -DOMPI_SKIP_MPICXX=1 -DMPICH_SKIP_MPICXX=1 -I"$root/include" -I"$root/tests" \
    $(found CFLAGS) tests/layout/sample_test.cpp "$root/tests/support/mpi_main.cpp" "$library" \
    -o build/tests/layout/sample_test -lgtest $(found LIBS) 2>compile.log; then
    not_ok "the sample compiles" "$(head -n 5 compile.log)"
    exit 1
fi
BUILD=build "$root/scripts/run_tests.sh" layout >output 2>&1
check_equal "one failure of six tests" "$? $(tail -n 1 output)" "1 5 passed, 1 failed, 0 skipped"
check_contains "it is the one of three ranks" "$(cat output)" "FAILED   layout/sample_test (3 ranks): Sample.fails_on_rank_2"
check_contains "the rank is named" "$(cat output)" "rank 2: tests/layout/sample_test.cpp:"
