# shellcheck shell=bash
# Sourced by tests written in bash: a scratch folder, and checks that print `ok NAME` or `not ok NAME`.
set -u
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Make's own variables would leak from `make test` into a make that is under test.
unset MAKEFLAGS MAKELEVEL MFLAGS GNUMAKEFLAGS MAKEOVERRIDES

ok() { echo "ok $1"; }
not_ok() {
    echo "not ok $1"
    shift
    printf '  # %s\n' "$@"
}
# check_equal NAME ACTUAL EXPECTED
check_equal() { if [[ $2 == "$3" ]]; then ok "$1"; else not_ok "$1" "is:     $2" "wanted: $3"; fi; }
# check_contains NAME TEXT PART
check_contains() { if [[ $2 == *"$3"* ]]; then ok "$1"; else not_ok "$1" "is: $2" "wanted in it: $3"; fi; }
# check_lacks NAME TEXT PART
check_lacks() { if [[ $2 != *"$3"* ]]; then ok "$1"; else not_ok "$1" "is: $2" "not wanted in it: $3"; fi; }
# children_of PID, processes_with PATTERN (of the command line, a regular expression): their numbers. A bare machine has no pgrep.
children_of() { cat /proc/[0-9]*/stat 2>/dev/null | awk -v parent="$1" '{pid = $1; sub(/^.*[)] /, ""); if ($2 == parent) print pid}'; }
processes_with() {
    local file
    for file in /proc/[0-9]*/cmdline; do
        if [[ $(tr '\0' ' ' <"$file") =~ $1 ]]; then file=${file%/cmdline} && echo "${file#/proc/}"; fi
    done
} 2>/dev/null
