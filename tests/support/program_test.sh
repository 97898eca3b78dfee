# shellcheck shell=bash
# Sourced by tests that use the programs as people do: starts them on a number of ranks, keeps what they print and
# the exit code, and holds these against expectations. Work files go below $scratch; the working directory stays the
# repository.
# shellcheck source=tests/support/shell_test.sh
. tests/support/shell_test.sh
# shellcheck source=scripts/mpi_environment.sh
. scripts/mpi_environment.sh
# shellcheck disable=SC2034
level=${TRIREME_TEST_LEVEL:-quick}
programs=${TRIREME_BIN:-${BUILD:-build}/bin}
# shellcheck disable=SC2034
tiny=(pretrain --config tests/configs/tiny.cfg)
chmod 755 "$scratch" # some tests work as another user
# A program that hangs is a failure, not an endless test.
hang=300

# started RANKS COMMAND...: runs a command on that number of ranks; sets status, output and errors.
started() {
    local ranks=$1 launcher=()
    shift
    [[ $ranks == 1 ]] || launcher=("${MPIRUN:-mpirun}" "${MPIRUN_FLAGS[@]}" -np "$ranks")
    timeout -k 10 "$hang" "${launcher[@]}" "$@" >"$scratch/stdout" 2>"$scratch/stderr" </dev/null
    status=$?
    # shellcheck disable=SC2034
    output=$(<"$scratch/stdout") errors=$(<"$scratch/stderr")
}
# run_trireme RANKS ARGUMENTS...
run_trireme() {
    local ranks=$1
    shift
    started "$ranks" "$programs/trireme" "$@"
}
# run_well NAME RANKS ARGUMENTS...: a run that must succeed.
run_well() {
    local name=$1
    shift
    run_trireme "$@"
    if [[ $status == 0 ]]; then ok "$name"; else not_ok "$name" "exit code $status" "${errors:0:2000}"; fi
}
# check_message NAME CODE THING CURE: the last run ended with that code and one message, whatever its number of ranks,
# that names the thing and has the cure after it. Both are extended regular expressions.
check_message() {
    local name=$1 code=$2 thing=$3 cure=$4 wrong=() count message
    # The launcher adds words of its own: ours start with our name and go on with indented lines.
    message=$(awk '/^trireme: error: /{on = 1; print; next} on && /^  /{print; next} {on = 0}' "$scratch/stderr")
    count=$(cat "$scratch/stdout" "$scratch/stderr" | grep -c 'trireme: error: ')
    [[ $status == "$code" ]] || wrong+=("exit code $status, wanted $code")
    [[ $count == 1 ]] || wrong+=("$count messages, wanted one")
    [[ $message =~ $thing ]] || wrong+=("wanted in the message: $thing")
    [[ $message =~ ($thing).*$'\n'.*($cure) ]] || wrong+=("wanted after that, as cure: $cure")
    grep -q 'terminate called\|Segmentation\|a bug of trireme' "$scratch/stderr" && wrong+=("it crashed")
    if [[ ${#wrong[@]} == 0 ]]; then ok "$name"; else not_ok "$name" "${wrong[@]}" "is: ${errors:0:1500}"; fi
}
# check_refused NAME RANKS CODE THING CURE ARGUMENTS...: trireme ARGUMENTS ends with one such message.
check_refused() {
    local name=$1 ranks=$2 code=$3 thing=$4 cure=$5
    shift 5
    run_trireme "$ranks" "$@"
    check_message "$name" "$code" "$thing" "$cure"
}

# losses FILE [FIRST [LAST]]: `iteration lm-loss grad-norm` of those iterations of a metrics.jsonl, as written.
losses() {
    sed -n 's/^{"iteration": \([0-9]*\), .*"lm loss": \([^,]*\), "grad norm": \([^,]*\), .*}$/\1 \2 \3/p' "$1" |
        awk -v first="${2:-1}" -v last="${3:-1000000}" '$1 >= first && $1 <= last'
}
# evaluations FILE WHAT [FIRST]: `iteration loss` of the evaluations WHAT (validation or test).
evaluations() {
    sed -n 's/^{"iteration": \([0-9]*\), .*"'"$2"' loss": \([^,]*\), .*}$/\1 \2/p' "$1" |
        awk -v first="${3:-1}" '$1 >= first'
}
# check_same_bits NAME ACTUAL EXPECTED COUNT: equal, letter by letter, and COUNT lines (17 digits name one fp64 number).
check_same_bits() {
    if [[ $2 == "$3" && $(grep -c . <<<"$2") == "$4" ]]; then
        ok "$1"
    else
        not_ok "$1" "$(diff <(echo "$2") <(echo "$3") | head -n 6)" "lines: $(grep -c . <<<"$2"), wanted $4"
    fi
}
# check_close NAME ACTUAL EXPECTED BOUND COUNT: COUNT lines of the same iterations whose numbers differ by at most BOUND,
# relative to the expected one; NaN is never close.
check_close() {
    local worst
    worst=$(paste -d ' ' <(echo "$2") <(echo "$3") | awk -v bound="$4" -v count="$5" '
        {
            half = NF / 2
            if (half != int(half) || half < 2 || $1 != $(half + 1)) { print "line " NR ": " $0; exit }
            for (i = 2; i <= half; i++) {
                difference = $i - $(half + i); if (difference < 0) difference = -difference
                size = $(half + i); if (size < 0) size = -size
                number = "^-?[0-9.]+([eE][-+]?[0-9]+)?$"
                if (!($i ~ number && $(half + i) ~ number && difference <= bound * size)) {
                    print "iteration " $1 ": " $i " against " $(half + i); exit
                }
            }
            good++
        }
        END { if (good != count) print good + 0 " lines are close, wanted " count }')
    if [[ -z $worst ]]; then ok "$1"; else not_ok "$1" "$worst"; fi
}
