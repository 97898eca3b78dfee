#!/bin/bash
# pretrain.sbatch on two nodes: the same bits as under mpirun, exit codes through sbatch, and what a person reads in the log.
# shellcheck source=tests/support/slurm_test.sh
. tests/support/slurm_test.sh
layout=(--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2)
sizes=(-N2 --ntasks-per-node=4)

submit eight "${sizes[@]}" "$templates/pretrain.sbatch" "${model[@]}" "${layout[@]}" --save "$s/eight" --train-iters 5
check_equal "eight ranks on two nodes" "$(finished "$job")" "COMPLETED 0:0"
check_contains "the log says who is where" "$(<"$log")" \
    "job $job, attempt 0: 2 nodes x 4 ranks x 2 cores on node[1-2], from iteration 0 in $s/eight"
check_lacks "no tensor group leaves its node" "$(<"$log")" "spans nodes"
check_contains "the program sees the nodes" "$(<"$log")" "node2: stage 1 = ranks 4-7"
run_well "the same under mpirun" 8 "${tiny[@]}" "${layout[@]}" --save "$s/mpirun" --train-iters 5
check_same_bits "the same bits" "$(losses "$s/eight/metrics.jsonl")" "$(losses "$s/mpirun/metrics.jsonl")" 5
[[ $level == full ]] || exit 0

submit wrong "${sizes[@]}" "$templates/pretrain.sbatch" "${model[@]}" --save "$s/wrong" --no-such-option 3
check_equal "a mistake of the user: exit code 2" "$(finished "$job")" "FAILED 2:0"
check_equal "and one message for all ranks" "$(grep -c 'trireme: error: ' "$log") $(grep -c 'error: .*no-such-option' "$log")" "1 1"
submit data "${sizes[@]}" "$templates/pretrain.sbatch" "${model[@]}" --save "$s/data" --data-path "$s/none"
check_equal "missing data: exit code 3" "$(finished "$job")" "FAILED 3:0"
submit config "${sizes[@]}" "$templates/pretrain.sbatch" no-such-model
check_equal "no such configuration: exit code 2" "$(finished "$job")" "FAILED 2:0"
check_contains "and where it was looked for" "$(<"$log")" "no configuration no-such-model, neither here"
submit ranks -N2 "$templates/pretrain.sbatch" "${model[@]}" --save "$s/ranks"
check_equal "unknown ranks a node: exit code 2" "$(finished "$job")" "FAILED 2:0"
check_contains "and how to give them" "$(<"$log")" "try: sbatch --gpus-per-node=8, or --ntasks-per-node=8 on CPUs"
SBATCH_GPUS_PER_NODE=2 submit gpus -N2 "$templates/pretrain.sbatch" "${model[@]}" --save "$s/gpus" --train-iters 2 --lr-warmup-iters 0
check_equal "a rank for each GPU that the site's file asks for" "$(finished "$job") $(sed -n 's/.*attempt 0: \(.* ranks\) .*/\1/p' "$log")" \
    "COMPLETED 0:0 2 nodes x 2 ranks"

# Two jobs in one directory would spoil each other's checkpoints.
submit first -N1 --ntasks-per-node=1 "$templates/pretrain.sbatch" "${model[@]}" --save "$s/shared" --train-iters 100000
wait_for 60 reaches "$s/shared/metrics.jsonl" 3
first=$job
submit second -N1 --ntasks-per-node=1 "$templates/pretrain.sbatch" "${model[@]}" --save "$s/shared"
check_equal "a second job in the same directory: exit code 2" "$(finished "$job")" "FAILED 2:0"
check_contains "it names the first" "$(<"$log")" "job $first runs in $s/shared already"
scancel "$first"

# A rank that is killed ends the job; Slurm says which it was.
submit killed "${sizes[@]}" "$templates/pretrain.sbatch" "${model[@]}" "${layout[@]}" --save "$s/killed" --train-iters 100000
wait_for 60 reaches "$s/killed/metrics.jsonl" 3
kill -KILL "$(processes_with "^[^ ]*bin/trireme pretrain .*--save $s/killed" | head -n 1)"
check_equal "a killed rank ends the job" "$(finished "$job")" "FAILED 137:0"
check_contains "and is named" "$(<"$log")" "srun: error: node"

# In a container: the ranks are started by srun, each in it. (A stand-in: it notes how it was called and runs the rest.)
mkdir "$s/bin"
# shellcheck disable=SC2016
printf '#!/bin/sh\necho "apptainer $1 $2 $3 $4"; shift 3; exec "$@"\n' >"$s/bin/apptainer"
chmod +x "$s/bin/apptainer"
PATH=$s/bin:$PATH TRIREME_CONTAINER=/opt/trireme.sif submit container "${sizes[@]}" "$templates/pretrain.sbatch" "${model[@]}" \
    --save "$s/container" --train-iters 2 --lr-warmup-iters 0
check_equal "a container on every rank" "$(finished "$job") $(grep -c '^apptainer exec --nv /opt/trireme.sif trireme$' "$log")" \
    "COMPLETED 0:0 8"
PATH=/usr/bin:/bin:/usr/sbin:/sbin submit path "${sizes[@]}" "$templates/pretrain.sbatch" "${model[@]}" --save "$s/path"
check_equal "no program: exit code 2" "$(finished "$job")" "FAILED 2:0"
check_contains "and how to have it" "$(<"$log")" "trireme is not in PATH on node1; load its module before sbatch"
