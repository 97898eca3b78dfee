#!/bin/bash
# The test runner sums up what really happened: real GoogleTest programs and shell scripts that pass, fail, skip,
# crash and hang.
. tests/support/shell_test.sh
runner=$PWD/scripts/run_tests.sh
cd "$scratch" || exit 1
mkdir -p tests/{unit,scripts,layout} build/tests/layout
export BUILD=build TRIREME_TEST_LEVEL=quick
unset TRIREME_REQUIRE GTEST_FILTER GTEST_OUTPUT

# script NAME < TEXT: a shell test of the scratch project, alone in its suite.
script() {
    rm -f tests/scripts/*
    cat >"tests/scripts/$1" && chmod +x "tests/scripts/$1"
}
closing() { "$runner" "$@" >output 2>&1; echo "$? $(tail -n 1 output)"; }

script all_test.sh <<'END'
#!/bin/sh
echo "ok one"; echo "not ok two"; echo "ok three # SKIP needs slurm: no slurmctld here"; echo "noise"; exit 1
END
check_equal "shell: sums" "$(closing scripts)" "1 1 passed, 1 failed, 1 skipped"
check_contains "shell: the failed test is named" "$(cat output)" "FAILED   scripts/all_test.sh: two"
check_contains "shell: the reason of a skip is shown" "$(cat output)" "three: needs slurm: no slurmctld here"
check_equal "a required kind must not be skipped" "$(TRIREME_REQUIRE=gpu,slurm closing scripts)" "1 1 passed, 2 failed, 0 skipped"
check_equal "another required kind may be" "$(TRIREME_REQUIRE=gpu closing scripts)" "1 1 passed, 1 failed, 1 skipped"

script dies_test.sh <<'END'
#!/bin/sh
echo "ok one"; kill -9 $$
END
check_equal "a crash after a passed test is a failure" "$(closing scripts)" "1 1 passed, 1 failed, 0 skipped"

script hangs_test.sh <<'END'
#!/bin/sh
echo "ok one"; sleep 30
END
check_equal "a hang is a failure" "$(TRIREME_TEST_TIMEOUT=1 closing scripts)" "1 1 passed, 1 failed, 0 skipped"
check_contains "a hang is called so" "$(cat output)" "hung: ended after 1 s"

script silent_test.sh <<<'#!/bin/sh'
check_equal "a script without tests is a failure" "$(closing scripts)" "1 0 passed, 1 failed, 0 skipped"
rm tests/scripts/*
check_equal "no test at all is a failure" "$(closing scripts)" "1 0 passed, 1 failed, 0 skipped"

script good_test.sh <<'END'
#!/bin/sh
echo "ok level $TRIREME_TEST_LEVEL"; echo "summary: 12 of 13 met"; echo "no summary: 5"
END
check_equal "all good: status 0" "$(closing scripts)" "0 1 passed, 0 failed, 0 skipped"
check_equal "what a program sums up is shown" "$(grep summary output; grep met output)" "      12 of 13 met"
check_equal "an unknown level is refused" "$(TRIREME_TEST_LEVEL=some closing scripts | cut -d ' ' -f 1)" 2

# One real GoogleTest program, told by its name's filter what to do.
cat >sample.cpp <<'END'
#include <csignal>
#include <gtest/gtest.h>
TEST(Sample, passes) {}
TEST(Sample, fails) { EXPECT_EQ(1, 2) << "a <tag> & \"quotes\""; }
TEST(Sample, skips) { GTEST_SKIP() << "needs gpu: none here"; }
TEST(Zeta, crashes) { std::raise(SIGSEGV); }
int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
END
if ! ${CXX:-g++} -std=c++20 -O0 -pthread sample.cpp -o build/tests/unit -lgtest 2>compile.log; then
    not_ok "the sample compiles" "$(head -n 5 compile.log)"
    exit 1
fi
check_equal "GoogleTest: sums" "$(GTEST_FILTER='Sample.*' closing unit)" "1 1 passed, 1 failed, 1 skipped"
check_contains "GoogleTest: the failed test is named" "$(cat output)" "FAILED   unit: Sample.fails"
check_contains "GoogleTest: the reason of a skip is shown" "$(cat output)" "Sample.skips: needs gpu: none here"
check_equal "GoogleTest: required" "$(TRIREME_REQUIRE=gpu GTEST_FILTER=Sample.skips closing unit)" "1 0 passed, 1 failed, 0 skipped"
check_equal "GoogleTest: passes" "$(GTEST_FILTER=Sample.passes closing unit)" "0 1 passed, 0 failed, 0 skipped"
check_equal "GoogleTest: a crash" "$(GTEST_FILTER='*.passes:Zeta.*' closing unit)" "1 1 passed, 1 failed, 0 skipped"
rm build/tests/unit
check_equal "a program that was not built is a failure" "$(closing unit)" "1 0 passed, 1 failed, 0 skipped"
