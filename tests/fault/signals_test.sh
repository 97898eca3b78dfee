#!/bin/bash
# A run that is asked to stop: by a signal to one rank or to all, once or twice, before its first step, in a step, in an
# evaluation or in a save; by --exit-duration-in-mins; by the time limit of a Slurm job (a made-up squeue). It saves,
# leaves with 75 and says why in SAVE/last_exit, and the run that goes on has the bits of one that was never disturbed.
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
s=$scratch
# Forty steps long enough to be hit, on two data ranks, which talk once a step: a loaded machine slows that down least.
job=(--train-iters 40 --lr-decay-iters 40 --hidden-size 64 --micro-batch-size 4 --global-batch-size 16 --eval-interval 10
    --eval-iters 2 --save-interval 10)
handled=("${job[@]}" --exit-signal-handler)

run_well "undisturbed" 2 "${tiny[@]}" "${job[@]}" --save "$s/whole"
check_equal "its record" "$(cat "$s/whole/last_exit")" \
    "$(printf 'reason=iterations\nsignal=\niteration=40\nexit=0\njob=\nattempt=0')"

# begin NAME ARGUMENTS...: starts a run of two ranks in the background; sets mpi, and ranks once they are there.
begin() {
    local name=$1
    shift
    : >"$s/stdout" # not the last run's
    timeout -k 10 "$hang" "${MPIRUN:-mpirun}" "${MPIRUN_FLAGS[@]}" -np 2 "$programs/trireme" "${tiny[@]}" \
        --save "$s/$name" --load "$s/$name" "$@" >"$s/stdout" 2>"$s/stderr" </dev/null &
    mpi=$!
}
# when TEXT: waits until the run has printed it; sets ranks to the two processes.
when() {
    local _
    for _ in {1..3000}; do
        grep -q -- "$1" "$s/stdout" && break
        kill -0 "$mpi" 2>/dev/null || break
        sleep 0.02
    done
    # Ours: mpirun is below timeout, and the ranks below mpirun.
    local launcher
    launcher=$(cat "/proc/$mpi/task/$mpi/children")
    # shellcheck disable=SC2086
    read -ra ranks <<<"$(cat /proc/${launcher// /}/task/*/children 2>/dev/null | tr '\n' ' ')"
}
ended() {
    wait "$mpi"
    status=$?
    output=$(<"$s/stdout") errors=$(<"$s/stderr")
}
record() { sed -n "s/^$2=//p" "$s/$1/last_exit"; }
# stopped NAME REASON SIGNAL: the run has saved what it did and says so everywhere; sets at.
stopped() {
    local name=$1
    check_equal "$name: exit code 75" "$status" 75
    check_lacks "$name: no error" "$errors" "trireme: error"
    at=$(record "$name" iteration)
    check_equal "$name: the record" "$(record "$name" reason) $(record "$name" signal) $(record "$name" exit)" "$2 $3 75"
    check_equal "$name: the checkpoint is of that step" "$(cat "$s/$name/latest_checkpointed_iteration.txt")" "$at"
    check_equal "$name: no step is lost" "$(losses "$s/$name/metrics.jsonl" | tail -n 1 | cut -d ' ' -f 1)" "$at"
    check_contains "$name: a person is told" "$output" "stopped at iteration $at by "
}
# goes_on NAME: resumed, it ends with the bits of the undisturbed run.
goes_on() {
    local name=$1
    run_well "$name: goes on" 2 "${tiny[@]}" "${job[@]}" --save "$s/$name" --load "$s/$name"
    check_same_bits "$name: the bits of the undisturbed run" "$(losses "$s/$name/metrics.jsonl")" \
        "$(losses "$s/whole/metrics.jsonl")" 40
    check_same_bits "$name: its evaluations too" "$(evaluations "$s/$name/metrics.jsonl" validation)" \
        "$(evaluations "$s/whole/metrics.jsonl" validation)" 4
    check_equal "$name: the record is of the last attempt" "$(record "$name" reason) $(record "$name" exit)" "iterations 0"
}

# --- USR1 to one rank, which is not the first; in a step
begin one "${handled[@]}"
when "iteration       13/"
kill -USR1 "${ranks[1]}"
ended
stopped one signal USR1
check_contains "one: where it says so" "$output" "stopped at iteration $at by a signal (USR1): saved in $s/one; exit code 75"
goes_on one

# --- USR1 to all, and again: the second changes nothing
begin all "${handled[@]}"
when "iteration       15/"
kill -USR1 "${ranks[@]}"
kill -USR1 "${ranks[@]}" 2>/dev/null
ended
stopped all signal USR1

# --- TERM to all, who all live
begin term "${handled[@]}"
when "iteration        5/"
kill -TERM "${ranks[@]}"
ended
stopped term signal TERM

# --- through mpirun, which hands USR1 on
begin mpirun "${handled[@]}"
when "iteration        5/"
kill -USR1 "$(cat "/proc/$mpi/task/$mpi/children")"
ended
stopped mpirun signal USR1

# --- in a save: every step has one
begin save "${handled[@]}" --save-interval 1
when "iteration        3/"
for _ in {1..2000}; do
    compgen -G "$s/save/*.partial" >/dev/null && break
done
kill -USR1 "${ranks[0]}"
ended
stopped save signal USR1
check_equal "save: nothing half-written stays" "$(find "$s/save" -name '*.partial' | wc -l)" 0

# --- in an evaluation, which is finished first
begin evaluation "${handled[@]}" --eval-iters 40
when "iteration       10/"
kill -USR1 "${ranks[0]}"
ended
stopped evaluation signal USR1
check_equal "evaluation: it was finished" "$(evaluations "$s/evaluation/metrics.jsonl" validation | wc -l)" 1

# --- before the first step: the signal waits for the program, blocked
cat >"$s/early" <<'PERL'
use POSIX; sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGUSR1)); kill USR1 => $$; exec @ARGV;
PERL
started 2 perl "$s/early" "$programs/trireme" "${tiny[@]}" "${handled[@]}" --save "$s/early.save"
check_equal "early: exit code 75" "$status" 75
check_equal "early: the record" "$(cat "$s/early.save/last_exit")" \
    "$(printf 'reason=signal\nsignal=USR1\niteration=0\nexit=75\njob=\nattempt=0')"
check_contains "early: it says so" "$output" "stopped at iteration 0 by a signal (USR1): no step was made, nothing had to be saved"
check_equal "early: there is no checkpoint" "$(find "$s/early.save" -name 'iter_*' | wc -l)" 0

# --- another signal; and without the handler a signal ends the run
begin other "${handled[@]}" --exit-signal SIGHUP
when "iteration        5/"
kill -HUP "${ranks[0]}"
ended
stopped other signal HUP
begin unhandled "${job[@]}"
when "iteration        5/"
kill -USR1 "${ranks[0]}"
ended
check_equal "unhandled: it is dead" "$((status != 0 && status != 75))" 1
check_equal "unhandled: and left no word" "$(find "$s/unhandled" -name last_exit | wc -l)" 0

# --- a limit of its own
run_trireme 2 "${tiny[@]}" "${job[@]}" --train-iters 4000 --save "$s/duration" --exit-duration-in-mins 0.02
stopped duration duration ""
run_trireme 2 "${tiny[@]}" "${job[@]}" --train-iters 4000 --exit-duration-in-mins 0.02 --save "$s/duration" --load "$s/duration"
check_equal "duration: again, it makes progress" "$(($(record duration iteration) > at))" 1

# --- a rank that dies: an error, which is recorded as one
begin killed "${handled[@]}"
when "iteration        5/"
kill -KILL "${ranks[1]}"
ended
check_equal "killed: not asked to be started again" "$((status != 0 && status != 75))" 1
check_contains "killed: the other says what it did" "$errors" "the job is being ended, and rank 1 ("
check_equal "killed: the record" "$(record killed reason) $(record killed exit)" "error 5"
check_equal "killed: and saved nothing" "$(cat "$s/killed/latest_checkpointed_iteration.txt" 2>/dev/null)" ""
check_refused "an error is recorded" 2 4 "there is no checkpoint in $s/absent" "--exit-on-missing-checkpoint" \
    "${tiny[@]}" "${job[@]}" --load "$s/absent" --exit-on-missing-checkpoint --save "$s/killed"
check_equal "an error is recorded: reason and code" "$(record killed reason) $(record killed exit)" "error 4"

# --- in a Slurm job the handler is on; squeue knows the time left, and the variable of newer versions is a start
mkdir "$s/bin"
cat >"$s/bin/squeue" <<'SH'
#!/bin/sh
# The array's other tasks answer as well. The next line of a file, the last one again and again, says when ours ends.
echo "77 3-00:00:00"
end=$(head -n 1 "$SQUEUE_END")
[ "$(wc -l <"$SQUEUE_END")" -lt 2 ] || sed -i 1d "$SQUEUE_END"
case $end in
UNLIMITED) echo "78 $end" ;;
*) left=$((end - $(date +%s))) && printf '78 %d:%02d\n' $((left / 60)) $((left % 60)) ;;
esac
SH
chmod +x "$s/bin/squeue"
# in_job END PATH ARGUMENTS...: as a task of job 78, which by its variable ends END seconds from now. mpirun itself must not
# take it for a real one.
in_job() {
    local end=$1 path=$2
    shift 2
    started 2 env "PATH=$path" "SQUEUE_END=$s/end" SLURM_JOB_ID=78 SLURM_RESTART_COUNT=2 \
        "SLURM_JOB_END_TIME=$(($(date +%s) + end))" "$programs/trireme" "${tiny[@]}" "${job[@]}" "$@"
}
# Fourteen seconds left and five in reserve: some are for steps.
echo $(($(date +%s) + 14)) >"$s/end"
in_job 1 "$s/bin:$PATH" --save "$s/limit" --train-iters 4000
stopped limit time-limit ""
check_contains "limit: it said so at the start" "$output" "(Slurm job 78): saves and stops in time, saves and stops on SIGUSR1"
check_equal "limit: the record names job and attempt" "$(record limit job) $(record limit attempt)" "78 2"
check_equal "limit: it made steps" "$((at > 0))" 1
# Moved while it runs: asked again, squeue says so, and the run goes on until something else stops it.
printf '%d\nUNLIMITED\n' $(($(date +%s) + 12)) >"$s/end"
in_job 1 "$s/bin:$PATH" --save "$s/moved" --train-iters 4000 --exit-duration-in-mins 0.3
stopped moved duration ""
check_equal "moved: squeue was asked twice" "$(<"$s/end")" UNLIMITED
# Without squeue the variable counts; nothing is left for even one step.
in_job 1 "$PATH" --save "$s/variable"
check_equal "variable: stopped before the first step" \
    "$status $(record variable reason) $(record variable iteration)" "75 time-limit 0"
in_job 1 "$PATH" --save "$s/off" --no-exit-signal-handler
check_equal "off: nobody looks at the clock" "$status $(record off reason)" "0 iterations"
