#!/bin/bash
# A short run in the foreground, to look at a fault: starts ranks with srun, inside an allocation (salloc) or not, with every
# line labelled by its rank.
#     debug.sh [-N NODES] [-n RANKS] [WAY] COMMAND...      COMMAND: as after `trireme`, e.g. pretrain --config F --train-iters 3
#   --gdb R         rank R under gdb: where it stands when it dies (a backtrace of all threads)
#   --sanitizer R   rank R under compute-sanitizer: the first wrong access to GPU memory
#   --cores         a crash leaves a core file; says where the system puts it
#   --nccl          NCCL says which interfaces, cards and rings it takes (NCCL_DEBUG=INFO), in debug-nccl.HOST.PID
#   --serial        GPU work one operation after the other, so that an error names the operation that caused it
# WAYs can be given together. Slurm's own options go into its variables (SLURM_PARTITION, SLURM_ACCOUNT, SLURM_MPI_TYPE).
set -eu
# shellcheck disable=SC1090
[[ -z ${TRIREME_SITE:-} ]] || . "$TRIREME_SITE"

usage() { sed -n '2,/^# WAYs/s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
number() { [[ ${1:-} =~ ^[0-9]+$ ]] || usage; }
ranks='' nodes='' rank=-1 tool=() before=:
while [[ $# -gt 0 ]]; do
    case $1 in
    -n) number "${2:-}" && ranks=$2 && shift ;;
    -N) number "${2:-}" && nodes=$2 && shift ;;
    --gdb) number "${2:-}" && rank=$2 && shift && tool=(gdb -q -batch -ex run -ex 'thread apply all backtrace' --args) ;;
    --sanitizer) number "${2:-}" && rank=$2 && shift && tool=(compute-sanitizer --error-exitcode 1) ;;
    --cores)
        before='ulimit -c unlimited'
        echo "core files: $(cat /proc/sys/kernel/core_pattern) on the node of the rank"
        ;;
    --nccl) export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,NET,ENV NCCL_DEBUG_FILE=debug-nccl.%h.%p ;;
    --serial) export CUDA_LAUNCH_BLOCKING=1 ;;
    -*) usage ;;
    *) break ;;
    esac
    shift
done
[[ $# -gt 0 ]] || usage
inside=()
[[ -z ${TRIREME_CONTAINER:-} ]] || inside=(apptainer exec --nv "$TRIREME_CONTAINER")
# shellcheck disable=SC2016
exec srun ${nodes:+--nodes="$nodes"} ${ranks:+--ntasks="$ranks"} --label --unbuffered --kill-on-bad-exit=0 --wait=60 \
    "${inside[@]}" bash -c "$before"'; rank=$1 words=$2; tool=("${@:3:words}"); shift $((2 + words))
        [[ $SLURM_PROCID == "$rank" ]] || tool=()
        exec "${tool[@]}" trireme "$@"' debug "$rank" "${#tool[@]}" "${tool[@]}" "$@"
