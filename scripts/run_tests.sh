#!/bin/bash
# Runs test suites one program after the other, shows progress, and ends with `N passed, N failed, N skipped`; the
# exit status is 1 if anything failed, crashed or hung. Run by `make test`; everything must be built before.
#   run_tests.sh SUITE...        suites: unit oracle layout fault gpu scripts slurm check-layers
# A suite is the GoogleTest programs made from tests/SUITE/*_test.cpp (an MPI test, whose first line is
# `// ranks: 1 2 4`, runs on each number) and the executable tests/SUITE/**/*_test.sh, which print
# `ok NAME`, `not ok NAME` or `ok NAME # SKIP reason` lines.
# Lines `summary: TEXT` that a program prints are shown below its own line.
# A skip reason that starts with `needs KIND` becomes a failure when KIND is named in TRIREME_REQUIRE=KIND,KIND.
# TRIREME_TEST_LEVEL=quick|full tells tests how much to do, TRIREME_TEST_TIMEOUT (seconds) ends a program that hangs.
set -u

build=${BUILD:-build}
mpirun=${MPIRUN:-mpirun}
export TRIREME_TEST_LEVEL=${TRIREME_TEST_LEVEL:-quick}
case $TRIREME_TEST_LEVEL in quick) timeout=900 ;; full) timeout=3600 ;; *)
    echo "run_tests: TRIREME_TEST_LEVEL=$TRIREME_TEST_LEVEL: quick or full is meant" >&2
    exit 2
    ;;
esac
timeout=${TRIREME_TEST_TIMEOUT:-$timeout}
logs=$build/test-logs
mkdir -p "$logs"
export BUILD=$build TRIREME_BIN=${BUNDLE:+$BUNDLE/programs}
: "${TRIREME_BIN:=$build/bin}"
# shellcheck source=scripts/mpi_environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/mpi_environment.sh"

passed=0 failed=0 skipped=0
failures=() skips=()

# required KIND: whether a test that lacks KIND must not be skipped.
required() { [[ ,${TRIREME_REQUIRE:-}, == *,$1,* ]]; }

# count NAME OUTCOME REASON: adds one test to the sums.
count() {
    local name=$1 outcome=$2 reason=$3
    if [[ $outcome == skipped && $reason =~ ^needs\ ([a-z0-9_-]+) ]] && required "${BASH_REMATCH[1]}"; then
        outcome=failed reason="skipped, but TRIREME_REQUIRE asks for it: $reason"
    fi
    case $outcome in
    passed) passed=$((passed + 1)) ;;
    skipped)
        skipped=$((skipped + 1))
        skips+=("$name: ${reason:-no reason given}")
        ;;
    *)
        failed=$((failed + 1))
        failures+=("$name${reason:+: $reason}")
        ;;
    esac
}

# GoogleTest's XML as lines `NAME<tab>OUTCOME<tab>REASON`; nothing when the file is not complete.
read_xml() {
    [[ -f $1 ]] && tail -n 1 "$1" | grep -q '</testsuites>' || return 1
    awk '
        function attribute(line, key,   value) {
            if (!match(line, " " key "=\"[^\"]*\"")) return ""
            value = substr(line, RSTART + length(key) + 3, RLENGTH - length(key) - 4)
            gsub(/&#x0A;|\n/, " ", value); gsub(/&quot;/, "\"", value); gsub(/&apos;/, "\047", value)
            gsub(/&lt;/, "<", value); gsub(/&gt;/, ">", value); gsub(/&amp;/, "\\&", value)
            return value
        }
        function flush() { if (name != "") print name "\t" outcome "\t" reason; name = "" }
        /<testcase / {
            flush()
            name = attribute($0, "classname") "." attribute($0, "name"); outcome = "passed"; reason = ""
            if (attribute($0, "status") == "notrun") name = ""
        }
        /<failure / { outcome = "failed" }
        /<skipped / && outcome == "passed" {
            outcome = "skipped"; reason = attribute($0, "message"); sub(/^[^ ]*:[0-9]+ +/, "", reason)
        }
        /<\/testsuites>/ { flush() }
    ' "$1"
}

# The lines of a shell test in the same form.
read_shell_log() {
    awk '
        /^not ok / { sub(/^not ok /, ""); print $0 "\tfailed\t" }
        /^ok / {
            sub(/^ok /, "")
            if (match($0, / # SKIP /)) print substr($0, 1, RSTART - 1) "\tskipped\t" substr($0, RSTART + 8)
            else print $0 "\tpassed\t"
        }
    ' "$1"
}

# run_program LABEL KIND COMMAND...: runs one program (KIND gtest or shell), counts its tests, prints one line.
run_program() {
    local label=$1 kind=$2 status before=$((passed + failed + skipped)) failed_before=$failed start=$SECONDS
    shift 2
    local log=$logs/${label//[ \/()]/_}.log
    local xml=${log%.log}.xml
    rm -f "$xml"
    [[ ! -t 1 ]] || printf '  %-45s ... ' "$label"
    GTEST_OUTPUT=xml:$(realpath -m "$xml") timeout -k 10 "$timeout" "$@" >"$log" 2>&1 </dev/null
    status=$?
    local results
    if [[ $kind == gtest ]]; then results=$(read_xml "$xml"); else results=$(read_shell_log "$log"); fi
    if [[ -z $results && $kind == gtest ]]; then
        # It did not live to write its results: what it finished counts, and its end is one failure.
        results=$(sed -n 's/^\[       OK \] \([^ ]*\).*/\1\tpassed\t/p; s/^\[  FAILED  \] \([^ ]*\) (.*/\1\tfailed\t/p' "$log")
        [[ $status != 0 ]] || status=lost
    fi
    local name outcome reason
    while IFS=$'\t' read -r name outcome reason; do
        [[ -z $name ]] || count "$label: $name" "$outcome" "$reason"
    done <<<"$results"
    case $status in
    0) [[ $((passed + failed + skipped)) != "$before" ]] || count "$label" failed "ran no test" ;;
    124 | 137) count "$label" failed "hung: ended after $timeout s" ;;
    lost) count "$label" failed "ended without results" ;;
    *) [[ $failed -gt $failed_before ]] || count "$label" failed "ended with status $status" ;;
    esac
    local verdict=ok
    [[ $failed == "$failed_before" ]] || verdict="FAILED ($((failed - failed_before)))"
    [[ -t 1 ]] || printf '  %-45s ... ' "$label"
    printf '%s, %d tests, %d s\n' "$verdict" $((passed + failed + skipped - before)) $((SECONDS - start))
    sed -n 's/^summary: /      /p' "$log"
    if [[ $failed != "$failed_before" ]]; then
        sed 's/^/      | /' "$log" | tail -n 60
        echo "      | (all of it: $log)"
    elif [[ ${VERBOSE:-0} == 1 ]]; then
        sed 's/^/      | /' "$log"
    fi
}

run_suite() {
    local suite=$1 source program ranks n launch
    if [[ $suite == check-layers ]]; then
        run_program check-layers shell scripts/check_layers.sh --test
        return
    fi
    if [[ $suite == fuzz ]]; then
        run_program fuzz shell scripts/run_fuzzers.sh
        return
    fi
    if [[ $suite == unit ]]; then
        [[ ! -d tests/unit ]] || run_program unit gtest "$build/tests/unit"
    else
        for source in tests/"$suite"/*_test.cpp; do
            [[ -f $source ]] || continue
            program=$build/${source%.cpp}
            launch=("$program")
            # Of a bundle: its programs, started so that they find their libraries.
            if [[ $suite == gpu && -n ${BUNDLE:-} ]]; then launch=("$BUNDLE/run" "$(basename "$program")"); fi
            if [[ $suite == gpu && -z ${BUNDLE:-} && ! -x $program ]]; then
                count "gpu/$(basename "$program")" skipped "needs gpu: this build has no CUDA"
                continue
            fi
            ranks=$(sed -n '1s|^// ranks:||p' "$source")
            if [[ -z $ranks ]]; then run_program "$suite/$(basename "$program")" gtest "${launch[@]}"; fi
            for n in $ranks; do
                run_program "$suite/$(basename "$program") ($n ranks)" gtest \
                    "$mpirun" "${MPIRUN_FLAGS[@]}" -np "$n" "${launch[@]}"
            done
        done
    fi
    [[ -d tests/$suite ]] || return 0
    while IFS= read -r source; do
        run_program "${source#tests/}" shell "$source"
    done < <(find "tests/$suite" -name '*_test.sh' -perm -u+x | sort)
}

[[ $# -gt 0 ]] || {
    echo "usage: scripts/run_tests.sh SUITE..." >&2
    exit 2
}
for suite in "$@"; do run_suite "$suite"; done

if [[ ${#skips[@]} -gt 0 ]]; then
    echo
    printf '  skipped  %s\n' "${skips[@]}"
fi
if [[ ${#failures[@]} -gt 0 ]]; then
    echo
    printf '  FAILED   %s\n' "${failures[@]}"
fi
if [[ $((passed + failed + skipped)) == 0 ]]; then
    echo "run_tests: no test was found in: $*" >&2
    failed=1
fi
echo
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed == 0 ]]
