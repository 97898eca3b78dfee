# shellcheck shell=bash
# Sourced by tests that need a cluster: starts the test again inside one of $nodes (2) nodes, or skips it with the reason.
# Jobs are the shipped templates as they are; what a test wants otherwise stands on sbatch's command line.
# shellcheck disable=SC2034 # what is set here is used there
if [[ -z ${TRIREME_CLUSTER:-} ]]; then
    if ! reason=$(tests/slurm/with_cluster.sh --check); then
        echo "ok $(basename "$0" .sh) # SKIP needs slurm: $reason"
        exit 0
    fi
    exec tests/slurm/with_cluster.sh "${nodes:-2}" "$0"
fi
# shellcheck source=tests/support/cluster.sh
. tests/support/cluster.sh
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
s=$scratch
templates=$PWD/job_templates
PATH=$(cd "$programs" && pwd):$PATH
unset TRIREME_TEMPLATES TRIREME_SITE
# A model whose steps take milliseconds, on any layout.
model=("$PWD/tests/configs/tiny.cfg" --device cpu)

# submit NAME SBATCH-ARGUMENT...: sets job; its output goes to $s/NAME.log.
submit() {
    local name=$1
    shift
    job=$(sbatch --parsable --output="$s/$name.log" "$@" 2>"$s/stderr") || { job='' && not_ok "$name: sbatch" "$(<"$s/stderr")"; }
    log=$s/$name.log
}
# field JOB NAME: a field of `scontrol show job`, of the first record.
field() { scontrol -o show job "$1" 2>/dev/null | sed -n "1s/.*\b$2=\([^ ]*\).*/\1/p"; }
in_state() { [[ $(field "$1" JobState) =~ ^($2)$ ]]; }
over='COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|DEADLINE|BOOT_FAIL|OUT_OF_MEMORY'
# finished JOB: waits for its end; prints its state and exit code, as in "COMPLETED 0:0".
finished() {
    wait_for 240 in_state "$1" "$over" || echo -n "not finished: "
    echo "$(field "$1" JobState) $(field "$1" ExitCode)"
}
# queued_again JOB TIMES: waits until it is for the TIMES-th time; prints its state and how often it was.
requeued() { in_state "$1" "$over" || { in_state "$1" PENDING && [[ $(field "$1" Restarts) == "$2" ]]; }; }
queued_again() {
    wait_for 120 requeued "$1" "$2"
    echo "$(field "$1" JobState) $(field "$1" Restarts)"
}
# restart JOB: starts a job that queued itself again without Slurm's wait of two minutes. (Sooner than two seconds after it
# was queued its credential is revoked and it fails.)
restart() { sleep 3 && scontrol update jobid="$1" StartTime=now; }
# reaches FILE ITERATION: whether a metrics.jsonl holds that iteration.
reaches() { [[ -n $(losses "$1" "$2" "$2" 2>/dev/null) ]]; }
