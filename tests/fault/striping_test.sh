#!/bin/bash
# Stripes of checkpoints on Lustre, with a stand-in for its tool, lfs: each checkpoint's directory is told before a file is in
# it, by one rank; what lfs does not do is said and the checkpoint is whole all the same.
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
s=$scratch
mkdir "$s/bin" "$s/lfs" "$s/lustre" "$s/disk"
# Directories below $s/lustre have stripes: of their own, else one target and 1 MiB. FAKE_LFS_MOST: targets that there are;
# FAKE_LFS_BROKEN: what fails; FAKE_LFS_HANGS: what has no end, with a child that has none either.
cat >"$s/bin/lfs" <<'END_OF_LFS'
#!/bin/bash
state=${0%/bin/lfs}/lfs
directory=${*: -1}
echo "$* ($(ls -A "$directory" | wc -l) files)" >>"$state/calls"
[[ $directory == "${0%/bin/lfs}/lustre"* ]] || { echo "$directory: not on a Lustre fs?" >&2; exit 25; }
[[ $1 != "${FAKE_LFS_BROKEN:-}" ]] || { echo "error: $1: Input/output error" >&2; exit 5; }
[[ $1 != "${FAKE_LFS_HANGS:-}" ]] || { sleep 1000 & echo $! >>"$state/hanging"; wait; }
own=$state/$(stat -c %i "$directory")
count=1 size=1048576
case $1 in
setstripe)
    shift
    while [[ $# -gt 1 ]]; do
        case $1 in -c) count=$2 ;; -S) size=$2 ;; *) exit 22 ;; esac
        shift 2
    done
    [[ $count -le ${FAKE_LFS_MOST:-100} ]] || count=$FAKE_LFS_MOST
    echo "$count $size" >"$own"
    ;;
getstripe)
    [[ $# == 4 && $2 == -d ]] || exit 22
    [[ ! -f $own ]] || read -r count size <"$own"
    case $3 in -c) echo "$count" ;; -S) echo "$size" ;; *) exit 22 ;; esac
    ;;
*) exit 22 ;;
esac
END_OF_LFS
chmod +x "$s/bin/lfs"
bare_path=$PATH
run=("${tiny[@]}" --num-layers 2 --hidden-size 8 --num-attention-heads 2 --seq-length 8 --max-position-embeddings 8
    --params-dtype fp32 --global-batch-size 4 --train-iters 4 --lr-warmup-iters 1 --eval-iters 0 --save-interval 2)
asked=(--save-stripe-count 8 --save-stripe-size 4M)
# train NAME RANKS SAVE ARGUMENTS...: with a list of calls of its own.
train() {
    local name=$1 ranks=$2 save=$3
    shift 3
    : >"$s/lfs/calls"
    run_well "$name" "$ranks" "${run[@]}" --save "$save" "$@"
}
calls() { sed "s:$s/::" "$s/lfs/calls"; }
warnings() { grep -c '^trireme: warning: ' "$s/stderr"; }
# whole NAME SAVE: the last checkpoint has all its sums.
whole() {
    run_trireme 1 checkpoint verify "$2"
    check_equal "$1: the checkpoint is whole" "$status" 0
}

export PATH=$s/bin:$bare_path
train "applied" 2 "$s/lustre/a" "${asked[@]}" --tensor-model-parallel-size 2
check_equal "applied: each directory is told while it is empty, by one rank, and the first is asked" "$(calls)" \
    "getstripe -d -c lustre/a (1 files)
setstripe -c 8 -S 4194304 lustre/a/iter_0000002.partial (0 files)
getstripe -d -c lustre/a/iter_0000002.partial (0 files)
getstripe -d -S lustre/a/iter_0000002.partial (0 files)
setstripe -c 8 -S 4194304 lustre/a/iter_0000004.partial (0 files)"
check_equal "applied: what came of it is said once" "$(grep '^ stripes' "$s/stdout" | sed "s:$s/::")" \
    " stripes of new files in lustre/a/iter_0000002.partial: 8 targets, 4.0 MiB on each in turn"
check_equal "applied: no warning" "$(warnings)" 0
check_equal "applied: the directory keeps them under its final name" "$(lfs getstripe -d -c "$s/lustre/a/iter_0000004")" 8
whole "applied" "$s/lustre/a"
losses "$s/lustre/a/metrics.jsonl" >"$s/undisturbed"

train "stopped" 2 "$s/lustre/r" "${asked[@]}" --tensor-model-parallel-size 2 --exit-interval 2
train "resumed" 2 "$s/lustre/r" "${asked[@]}" --tensor-model-parallel-size 2 --load "$s/lustre/r" --async-save
check_equal "resumed: told and asked again" "$(calls | sed 's/ (.*//')" "getstripe -d -c lustre/r
setstripe -c 8 -S 4194304 lustre/r/iter_0000004.partial
getstripe -d -c lustre/r/iter_0000004.partial
getstripe -d -S lustre/r/iter_0000004.partial"
check_same_bits "resumed: the same losses" "$(losses "$s/lustre/r/metrics.jsonl")" "$(<"$s/undisturbed")" 4
whole "resumed" "$s/lustre/r"

# As some launchers have it: exit codes of children are lost.
started 1 env --ignore-signal=CHLD "$programs/trireme" "${run[@]}" --save "$s/lustre/k" "${asked[@]}"
check_equal "SIGCHLD ignored: the run ends well" "$status" 0
check_contains "SIGCHLD ignored: lfs counts as good" "$output" "iter_0000002.partial: 8 targets, 4.0 MiB on each in turn"
check_equal "SIGCHLD ignored: no warning" "$(warnings)" 0

export FAKE_LFS_MOST=3
train "fewer targets" 1 "$s/lustre/b" --save-stripe-count 8
check_equal "fewer targets: a warning" "$(sed "s:$s/::" "$s/stderr")" \
    "trireme: warning: --save-stripe-count 8 was asked for, but \`lfs getstripe -d -c lustre/b/iter_0000002.partial\` says 3"
unset FAKE_LFS_MOST
train "all targets" 1 "$s/lustre/c" --save-stripe-count -1
check_contains "all targets" "$output" "iter_0000002.partial: all targets, 1.0 MiB on each in turn"
check_equal "all targets: no warning" "$(warnings)" 0

FAKE_LFS_BROKEN=setstripe train "lfs fails" 2 "$s/lustre/d" "${asked[@]}"
check_equal "lfs fails: it is said once, in lfs's words" "$(sed "s:$s/::" "$s/stderr")" \
    "trireme: warning: \`lfs setstripe -c 8 -S 4194304 lustre/d/iter_0000002.partial\` fails (error: setstripe: Input/output error): \
the checkpoint is saved without --save-stripe-count 8 and --save-stripe-size 4194304"
check_equal "lfs fails: it is tried again" "$(calls | grep -c setstripe)" 2
whole "lfs fails" "$s/lustre/d"

train "not asked for" 2 "$s/lustre/e" --tensor-model-parallel-size 2
check_equal "not asked for: one question" "$(calls)" "getstripe -d -c lustre/e (1 files)"
check_contains "not asked for: what to try" "$output" "save      $s/lustre/e is on Lustre and each file of a checkpoint will lie on \
one target, which 2 ranks write to; try: --save-stripe-count 2"
train "a file for each rank" 2 "$s/lustre/f" --pipeline-model-parallel-size 2
check_lacks "a file for each rank: no advice" "$output" "is on Lustre"
check_equal "a file for each rank: no question" "$(calls)" ""
train "one rank" 1 "$s/lustre/g"
check_equal "one rank: no question" "$(calls)" ""

# lfs hangs: what it costs is its limit, once in a run.
FAKE_LFS_HANGS=getstripe train "lfs hangs" 2 "$s/lustre/h" "${asked[@]}" --tensor-model-parallel-size 2
check_equal "lfs hangs: it is said once" "$(sed "s:$s/::" "$s/stderr")" \
    "trireme: warning: \`lfs getstripe -d -c lustre/h\` hangs (lfs: no end after 5 s): lfs is not called again in this run, and \
--save-stripe-count 8 and --save-stripe-size 4194304 are without effect"
check_equal "lfs hangs: it is called once" "$(calls | sed 's/ (.*//')" "getstripe -d -c lustre/h"
whole "lfs hangs" "$s/lustre/h"
check_same_bits "lfs hangs: the same losses" "$(losses "$s/lustre/h/metrics.jsonl")" "$(<"$s/undisturbed")" 4
FAKE_LFS_HANGS=getstripe train "lfs hangs, nothing asked for" 2 "$s/lustre/i"
check_equal "lfs hangs, nothing asked for: nothing is said" "$(warnings) $(calls | sed 's/ (.*//')" "0 getstripe -d -c lustre/i"
hung=2
if [[ $level == full ]]; then # 20 s
    hung=3
    FAKE_LFS_HANGS=setstripe train "lfs hangs later" 2 "$s/lustre/j" "${asked[@]}"
    check_equal "lfs hangs later: it is said once" "$(sed "s:$s/::" "$s/stderr")" \
        "trireme: warning: \`lfs setstripe -c 8 -S 4194304 lustre/j/iter_0000002.partial\` hangs (lfs: no end after 20 s): lfs is not \
called again in this run, and checkpoints are saved without --save-stripe-count 8 and --save-stripe-size 4194304"
    check_equal "lfs hangs later: it is not called again" "$(calls | wc -l)" 2
    whole "lfs hangs later" "$s/lustre/j"
fi
alive=0
while read -r child; do # one that nobody has waited for yet is a zombie
    ! grep -q '^State:[[:space:]]*[^XZ[:space:]]' "/proc/$child/status" 2>/dev/null || alive=$((alive + 1))
done <"$s/lfs/hanging"
check_equal "lfs hangs: no process of it is left" "$alive of $hung" "0 of $(wc -l <"$s/lfs/hanging")"

kind=$(df --output=fstype "$s" | tail -n 1)
train "not Lustre" 2 "$s/disk/a" "${asked[@]}"
check_equal "not Lustre: one warning" "$(warnings)" 1
check_contains "not Lustre: which file system it is" "$errors" "trireme: warning: $s/disk/a is on $kind, which has no stripes"
check_contains "not Lustre: what that means" "$errors" \
    ": --save-stripe-count 8 and --save-stripe-size 4194304 are without effect"
check_equal "not Lustre: lfs is asked once and told nothing" "$(calls | sed 's/ (.*//')" "getstripe -d -c disk/a"
whole "not Lustre" "$s/disk/a"
export PATH=$bare_path
if ! command -v lfs >/dev/null; then
    train "no lfs" 2 "$s/disk/b" --save-stripe-count 8 --tensor-model-parallel-size 2
    check_contains "no lfs: it is said" "$errors" "trireme: warning: lfs cannot be started (lfs: No such file or directory) and \
$s/disk/b is on $kind: --save-stripe-count 8 is without effect"
    check_equal "no lfs: the same losses" "$(losses "$s/disk/b/metrics.jsonl")" "$(<"$s/undisturbed")"
    whole "no lfs" "$s/disk/b"
    train "no lfs, nothing asked for" 2 "$s/disk/c" --tensor-model-parallel-size 2
    check_equal "no lfs, nothing asked for: nothing is said" "$(warnings) $(grep -c Lustre "$s/stdout")" "0 0"
fi
check_refused "a size that Lustre does not have" 2 2 "the stripes of Lustre are multiples of 64 KiB" "save-stripe-size 4M" \
    "${run[@]}" --save "$s/disk/x" --save-stripe-size 100K
