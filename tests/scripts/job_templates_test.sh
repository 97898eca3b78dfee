#!/bin/bash
# What the templates decide by themselves, with stand-ins for Slurm's commands and the program: sizes, the directory of the
# run, where a start begins, when to queue again and when to give up. tests/slurm runs them on a real Slurm.
# shellcheck source=tests/support/shell_test.sh
. tests/support/shell_test.sh
s=$scratch
export TRIREME_TEMPLATES=$PWD/job_templates
mkdir "$s/bin" && cd "$s" || exit 1
stand_in() { cat >"bin/$1" && chmod +x "bin/$1"; }
# srun notes its options and the program's, puts a checkpoint where the test says, and ends as the test says.
stand_in srun <<'END'
#!/bin/bash
trap : USR1
echo "$@" >srun.called
printf '%s\n' "$*" | sed 's/.* trireme //' >program.called
[[ -z ${SAVES:-} ]] || { mkdir -p "${SAVES% *}" && echo "${SAVES#* }" >"${SAVES% *}/latest_checkpointed_iteration.txt"; }
[[ -z ${SENDS:-} ]] || { kill -"$SENDS" $PPID && sleep 0.2; }
exit "${ENDS:-0}"
END
stand_in scontrol <<<'#!/bin/sh
echo "scontrol $*" >>slurm.called'
stand_in scancel <<<'#!/bin/sh
echo "scancel $*" >>slurm.called'
stand_in squeue <<<'#!/bin/sh
cat running 2>/dev/null'
stand_in trireme <<<'#!/bin/sh'
# job TEMPLATE ARGUMENT...: runs it as Slurm would on two nodes; sets status, output, program (what the ranks were told).
job() {
    rm -f slurm.called program.called srun.called
    output=$(PATH=$s/bin:$PATH SLURM_JOB_ID=${id:-7} SLURM_JOB_NUM_NODES=2 SLURM_JOB_NODELIST='n[1-2]' SLURM_CPUS_ON_NODE=32 \
        SLURM_NTASKS_PER_NODE=${tasks-8} bash "$TRIREME_TEMPLATES/$1" "${@:2}" 2>&1)
    status=$?
    program=$(cat program.called 2>/dev/null)
}
called() { cat slurm.called 2>/dev/null; }
config=$TRIREME_TEMPLATES/configs/gpt-1.3b.cfg
printf 'save = out # here\nfinetune = false\n' >own.cfg

# --- sizes and places
job pretrain.sbatch gpt-1.3b --lr 1
check_equal "a known model by name" "$status $program" "0 pretrain --config $config --lr 1 --save runs/gpt-1.3b"
check_contains "two nodes, eight ranks each" "$(cat srun.called)" "--nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=4 "
check_contains "ranks in a row share a node" "$(cat srun.called)" "--distribution=block:block"
job pretrain.sbatch "$config" --save there/x
check_contains "--save on the command line" "$program" "--save there/x"
job pretrain.sbatch "$config" --save=there/y
check_contains "--save=" "$program" "--save there/y"
mkdir -p sub && cp own.cfg sub/
job pretrain.sbatch sub/own.cfg
check_equal "save in the file, relative to the file" "$program" "pretrain --config sub/own.cfg --save sub/out"
tasks='' SLURM_GPUS_PER_NODE=h100:4 job pretrain.sbatch gpt-1.3b
check_contains "a rank for each GPU" "$(cat srun.called)" "--ntasks=8 --ntasks-per-node=4 "
tasks='' job pretrain.sbatch gpt-1.3b
check_equal "no number of ranks" "$status $program" "2 "
check_contains "no number of ranks: how to give it" "$output" "try: sbatch --gpus-per-node=8, or --ntasks-per-node=8"
job pretrain.sbatch
check_contains "no configuration" "$status $output" "2 trireme-job: error: usage: sbatch"
echo 'export SLURM_CPU_BIND=map_ldom:0,1 SITE_READ=yes' >site.env
TRIREME_SITE=$s/site.env job pretrain.sbatch gpt-7b
check_contains "the site's file is read" "$(cat srun.called)" "--cpu-bind=map_ldom:0,1"

# --- where a start begins: what the command line says counts for the first one
begin=(--load base --finetune --no-load-rng --lr 1)
job pretrain.sbatch "$config" --save begin "${begin[@]}"
check_equal "the first start" "$program" "pretrain --config $config --save begin ${begin[*]} --save begin"
echo 30 >begin/latest_checkpointed_iteration.txt
job pretrain.sbatch "$config" --save begin "${begin[@]}"
check_equal "a later one" "$program" "pretrain --config $config --save begin --lr 1 --load begin --save begin"
printf 'save = begin\nfinetune = true\n' >anew.cfg
job pretrain.sbatch anew.cfg
check_equal "a file that would begin anew each time" "$status $program" "2 "
check_contains "a file that would begin anew: the cure" "$output" "give --finetune on the command line"

# --- queued again or not
ENDS=75 SAVES='again 40' job pretrain.sbatch "$config" --save again
check_equal "75: queued again" "$status $(called)" "75 scontrol requeue 7"
check_contains "75: it says from where" "$output" "the next start goes on from iteration 40"
for code in 0 1 2 7 137; do
    ENDS=$code job pretrain.sbatch "$config" --save "code$code"
    check_equal "$code: not queued again" "$status $(called)" "$code "
done
ENDS=75 SENDS=TERM job pretrain.sbatch "$config" --save cancelled
check_equal "75 after scancel: not queued again" "$status $(called)" "75 "
ENDS=75 SENDS=USR1 job pretrain.sbatch "$config" --save warned
check_equal "75 after USR1: queued again" "$status $(called)" "75 scontrol requeue 7"

# --- giving up
start() { # ATTEMPT ITERATION: a start of job 7 in the directory `stuck`
    echo "$2" >stuck/latest_checkpointed_iteration.txt
    SLURM_RESTART_COUNT=$1 ENDS=75 job pretrain.sbatch "$config" --save stuck
    echo "$status"
}
mkdir stuck
check_equal "one start without progress is a mishap, two are a fault" "$(start 0 5) $(start 1 5) $(start 2 5)" "75 75 1"
start 2 5 >stuck/last
check_contains "it says why it gives up" "$output" "two starts in a row brought no checkpoint beyond iteration 5 in stuck"
check_equal "progress in between" "$(start 2 6) $(start 3 6) $(start 4 7) $(start 5 7)" "75 75 75 75"
echo 8 >stuck/latest_checkpointed_iteration.txt
ENDS=0 job pretrain.sbatch "$config" --save stuck
check_equal "a complete run leaves nothing to count" "$status $(find stuck -name starts)" "0 "
id=8
check_equal "another job starts to count anew" "$(start 0 7)" 75
id=7
export TRIREME_MAX_RESTARTS=2
check_equal "TRIREME_MAX_RESTARTS" "$(start 1 10) $(start 2 11) $(start 3 12)" "75 75 1"
start 3 12 >stuck/last
check_contains "TRIREME_MAX_RESTARTS: it says so" "$output" "after 2 restarts; TRIREME_MAX_RESTARTS"
unset TRIREME_MAX_RESTARTS
echo 8 >running
id=8
start 0 20 >stuck/last
id=9
check_equal "another job runs there" "$(start 0 20)" 2
rm running
check_equal "it runs no more" "$(start 0 20)" 75
id=7

# --- the chain: pieces are jobs of their own, the chain is the array
piece() { # PIECE CODE
    id=$((100 + $1)) ENDS=$2 SLURM_ARRAY_JOB_ID=100 SLURM_ARRAY_TASK_ID=$1 SLURM_ARRAY_TASK_MAX=9 \
        job pretrain-array-chain.sbatch "$config" --save chain
    echo "$status $(called)"
}
check_equal "a piece that hands on" "$(SAVES='chain 5' piece 1 75)" "0 "
check_equal "a piece that ends the run takes the rest away" "$(SAVES='chain 9' piece 2 0)" "0 scancel --state=PENDING 100"
check_equal "so does a fault" "$(SAVES='chain 10' piece 3 3)" "3 scancel --state=PENDING 100"
check_equal "a piece that was cancelled leaves the others" "$(SENDS=TERM piece 4 75)" "75 "
check_equal "pieces without progress" "$(piece 5 75), $(piece 6 75)" "0 , 1 scancel --state=PENDING 100"
job pretrain-array-chain.sbatch "$config"
check_contains "not an array" "$status $output" "2 trireme-job: error: usage: sbatch -N NODES --array=1-30%1"

# --- preprocessing in shares
files=(a b c d e)
SLURM_ARRAY_TASK_ID=2 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_COUNT=3 job preprocess.sbatch out/p "${files[@]}" -- --append-eod
check_contains "the second of three tasks" "$(cat srun.called)" \
    "trireme-data preprocess --input b e --output-prefix out/p.2 --workers 32 --append-eod"
job preprocess.sbatch out/p a b -- --append-eod
check_contains "one task" "$(cat srun.called)" "--input a b --output-prefix out/p --workers 32 --append-eod"
job preprocess.sbatch out/p
check_equal "nothing to do" "$status" 2
