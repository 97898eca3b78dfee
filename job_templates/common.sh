# shellcheck shell=bash
# What the batch templates share; they source it on the first node of a job. Sizes come from what Slurm says the job has:
# there is no list of hosts, no address and no port to set.
# shellcheck disable=SC2034 # what is set here is used there
set -u

say() { echo "trireme-job: $*"; }
give_up() { # CODE MESSAGE...
    local code=$1
    shift
    echo "trireme-job: error: $*" >&2
    exit "$code"
}

# The cluster's own settings, once more: a job may start on a node that knows nothing of the shell it was submitted from.
# shellcheck disable=SC1090
[[ -z ${TRIREME_SITE:-} ]] || . "$TRIREME_SITE"
export SLURM_EXPORT_ENV=ALL # else `sbatch --export=NONE` would hide all of it from the ranks

# count_ranks: sets nodes, ranks_per_node (one a GPU, or --ntasks-per-node) and cpus_per_rank.
count_ranks() {
    nodes=$SLURM_JOB_NUM_NODES
    ranks_per_node=${SLURM_NTASKS_PER_NODE:-${SLURM_GPUS_PER_NODE:-}}
    ranks_per_node=${ranks_per_node##*:} # h100:8
    [[ $ranks_per_node =~ ^[1-9][0-9]*$ ]] ||
        give_up 2 "how many ranks a node? try: sbatch --gpus-per-node=8, or --ntasks-per-node=8 on CPUs"
    cpus_per_rank=$((SLURM_CPUS_ON_NODE / ranks_per_node))
    ((cpus_per_rank > 0)) || cpus_per_rank=1
}

# find_config NAME: a path, or the name of a model in configs/ beside this file, with or without .cfg. Sets config.
find_config() {
    local known
    known=$(dirname "${BASH_SOURCE[0]}")/configs
    for config in "$1" "$known/$1" "$known/$1.cfg"; do
        [[ ! -f $config ]] || return 0
    done
    give_up 2 "there is no configuration $1, neither here ($PWD) nor in $known"
}

# find_save CONFIG OPTION...: the directory of this run, sets save: what --save says, else the file, else runs/NAME here.
find_save() {
    local file=$1 word previous='' line
    shift
    save=''
    for word in "$@"; do
        [[ $previous != --save ]] || save=$word
        [[ $word != --save=* ]] || save=${word#--save=}
        previous=$word
    done
    if [[ -z $save ]]; then
        line=$(sed -n 's/^[[:blank:]]*save[[:blank:]]*=[[:blank:]]*"\{0,1\}\([^"#]*[^"#[:blank:]]\).*/\1/p' "$file" | tail -n 1)
        case $line in '') ;; /*) save=$line ;; *) save=$(dirname "$file")/$line ;; esac
    fi
    [[ -n $save ]] || save=runs/$(basename "$file" .cfg)
    mkdir -p "$save" || give_up 74 "cannot create the directory of the run, $save"
}

checkpointed() { cat "$save/latest_checkpointed_iteration.txt" 2>/dev/null || echo 0; }

# begin_run CONFIG OPTION...: sets all of the above and options, those of `trireme pretrain` in this start. Where a run begins
# (--load and its like) is a matter of the first start alone: later ones go on from their own checkpoints.
begin_run() {
    find_config "$1"
    shift
    find_save "$config" "$@"
    count_ranks
    options=(--config "$config")
    if [[ $(checkpointed) == 0 ]]; then
        options+=("$@")
    else
        ! grep -q '^[[:blank:]]*finetune[[:blank:]]*=[[:blank:]]*true' "$config" ||
            give_up 2 "finetune = true in $config would begin anew at each restart; give --finetune on the command line"
        while [[ $# -gt 0 ]]; do
            case $1 in
            --finetune | --no-load-optim | --no-load-rng | --load=*) ;;
            --load) shift ;;
            *) options+=("$1") ;;
            esac
            shift
        done
        options+=(--load "$save")
    fi
    options+=(--save "$save")
    hold_to_limits
}

# hold_to_limits: refuses a start that cannot help: another job runs in this directory, more restarts than
# TRIREME_MAX_RESTARTS, or the two starts before this one brought no newer checkpoint. SAVE/starts has a line for each start:
# job, iteration, and the job that the chain began with.
hold_to_limits() {
    local chain=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID} now other limit=${TRIREME_MAX_RESTARTS:-50} same
    now=$(checkpointed)
    attempt=${SLURM_RESTART_COUNT:-0}
    say "job $SLURM_JOB_ID, attempt $attempt${SLURM_ARRAY_TASK_ID:+, piece $SLURM_ARRAY_TASK_ID}: $nodes nodes x" \
        "$ranks_per_node ranks x $cpus_per_rank cores on $SLURM_JOB_NODELIST, from iteration $now in $save"
    other=$(tail -n 1 "$save/starts" 2>/dev/null | cut -d ' ' -f 1)
    if [[ -n $other && $other != "$SLURM_JOB_ID" ]] && squeue -h -t R -o %A | grep -qx "$other"; then
        give_up 2 "job $other runs in $save already; try: another --save, or wait for it (sbatch -d afterany:$other)"
    fi
    ((attempt <= limit)) ||
        give_up 1 "stopped at iteration $now after $limit restarts; TRIREME_MAX_RESTARTS sets how many are allowed"
    same=$(awk -v chain="$chain" '$3 == chain' "$save/starts" 2>/dev/null | tail -n 2 |
        awk -v now="$now" '$2 == now' | wc -l)
    ((same < 2)) || give_up 1 "stopped: two starts in a row brought no checkpoint beyond iteration $now in $save;" \
        "the log above says why they ended; submit again once that is cured"
    echo "$SLURM_JOB_ID $now $chain" >>"$save/starts"
}

# end_run: says how the start ended, and why if the program wrote it. A run that is complete has no starts to count.
end_run() {
    local why
    why=$(sed -n 's/^\(reason\|signal\)=//p' "$save/last_exit" 2>/dev/null | tr '\n' ' ')
    say "attempt $attempt ended with exit code $status at iteration $(checkpointed)${why:+ (${why% })}"
    [[ $status != 0 ]] || rm -f "$save/starts"
}

# launch COMMAND...: a rank for each GPU on all nodes; sets status. Consecutive ranks share a node, so tensor-parallel groups
# do; each rank has cores of its own (SLURM_CPU_BIND in the site's file puts them next to its GPU) and sees all GPUs of
# the node, from which it takes the one of its number; NCCL then finds the network card next to it.
# USR1, which Slurm sends to this script before the time limit, is handed on to the ranks. TERM (scancel, preemption, the
# limit itself) reaches them from Slurm; here it only means: no restart. A rank that is gone ends the others after a minute,
# so that what they have to say about it is said.
launch() {
    local srun signalled inside=()
    [[ -z ${TRIREME_CONTAINER:-} ]] || inside=(apptainer exec --nv "$TRIREME_CONTAINER")
    [[ -n ${inside[*]} ]] || command -v "$1" >/dev/null ||
        give_up 2 "$1 is not in PATH on $HOSTNAME; load its module before sbatch, or in a file that TRIREME_SITE names"
    cancelled=0
    [[ -z ${save:-} ]] || rm -f "$save/last_exit"
    srun --nodes="$nodes" --ntasks=$((nodes * ranks_per_node)) --ntasks-per-node="$ranks_per_node" \
        --cpus-per-task="$cpus_per_rank" --cpu-bind="${SLURM_CPU_BIND:-cores}" --distribution=block:block --gpu-bind=none \
        --kill-on-bad-exit=0 --wait=60 "${inside[@]}" "$@" &
    srun=$!
    trap 'signalled=1; kill -USR1 "$srun"' USR1
    trap 'signalled=1 cancelled=1' TERM
    while true; do
        signalled=0
        wait "$srun"
        status=$?
        ((signalled)) || break
    done
    trap - USR1 TERM
}
