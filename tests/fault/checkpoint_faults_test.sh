#!/bin/bash
# The fault campaign of checkpoints: real processes, real signals, real disks that are full. Every case ends in a resume
# whose losses have the same bits as those of an undisturbed run. Prints counts at the end.
#   kill      SIGKILL of one rank, or of all at once, in each phase of saving and publishing
#   disk      disks that are full (a small tmpfs, a limit on file sizes) or fail, at random places; training survives
#   flip      a flipped byte anywhere in the newest checkpoint
#   files     its files cut short, exchanged, of another run, missing
#   marker    the marker missing, empty, rubbish, ahead of the files; leases; what killed runs leave behind
# TRIREME_FAULT_CASES="KILL DISK FLIP FILES MARKER" sets the counts (make test-faults: 66 40 40 30 30),
# TRIREME_FAULT_SEED the random numbers.
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
s=$scratch
hang=60
read -r kills disks flips files markers <<<"${TRIREME_FAULT_CASES:-$([[ $level == full ]] && echo 33 12 14 12 12 || echo 11 8 8 6 7)}"
RANDOM=${TRIREME_FAULT_SEED:-$(($(date +%s) % 32768))}
echo "# TRIREME_FAULT_SEED=${TRIREME_FAULT_SEED:-$RANDOM}"
RANDOM=${TRIREME_FAULT_SEED:-$RANDOM}
run=(pretrain --config tests/configs/tiny.cfg --num-layers 2 --hidden-size 8 --num-attention-heads 2 --seq-length 8
    --max-position-embeddings 8 --params-dtype fp32 --global-batch-size 4 --train-iters 6 --lr-warmup-iters 1 --eval-iters 0
    --save-interval 2 --save-retain 2 --num-workers 0)
declare -A layouts=([one]="" [tp]="--tensor-model-parallel-size 2" [pp]="--pipeline-model-parallel-size 2"
    [zero]="--use-distributed-optimizer")
declare -A count=()
longest=0

ranks_of() { if [[ $1 == one ]]; then echo 1; else echo 2; fi; }
# train LAYOUT ARGUMENTS...: one run into and from $s/run.
train() {
    local layout=$1 start=$SECONDS
    shift
    # shellcheck disable=SC2086
    run_trireme "$(ranks_of "$layout")" "${run[@]}" ${layouts[$layout]} --save "$s/run" --load "$s/run" "$@"
    [[ $((SECONDS - start)) -le $longest ]] || longest=$((SECONDS - start))
}
# The last word of each iteration: a run that was thrown back says some of them twice.
last_losses() { losses "$1/metrics.jsonl" | awk '{line[$1] = $0} END {for (i = 1; i <= 6; i++) print line[i]}'; }
reference() { [[ -f $s/reference.$1 ]] || {
    rm -rf "$s/run"
    train "$1" || return
    last_losses "$s/run" >"$s/reference.$1"
    # For the damage: checkpoints of iterations 2 and 4.
    rm -rf "$s/run"
    train "$1" --exit-interval 4
    cp -r "$s/run" "$s/base.$1"
}; }
# saved: the last iteration that a run has said to be saved.
saved() { sed -n 's|^ saved .*/iter_0*\([0-9]*\) in .*|\1|p' "$1" | tail -n 1; }
# resumes NAME LAYOUT LEAST: the run goes on from at least iteration LEAST and ends with the bits of the reference.
resumes() {
    local name=$1 layout=$2 least=$3 wrong=() from
    train "$layout"
    from=$(sed -n 's|^resume    .*/iter_0*\([0-9]*\) (saved.*|\1|p' "$s/stdout")
    [[ $status == 0 ]] || wrong+=("resume ended with $status" "${errors:0:1500}")
    [[ ${from:-0} -ge ${least:-0} ]] || wrong+=("resumed from ${from:-the start}, iteration $least had been saved")
    [[ $(last_losses "$s/run") == "$(<"$s/reference.$layout")" ]] || wrong+=("other losses than the undisturbed run" "$(diff <(last_losses "$s/run") "$s/reference.$layout")")
    [[ -z $(find "$s/run" -maxdepth 1 \( -name '*.partial' -o -name '*.replaced' -o -name '*.deleted' -o -name '*.tmp.*' \
        -o -name lease \)) ]] || wrong+=("something is left: $(ls "$s/run")")
    if [[ ${#wrong[@]} == 0 ]]; then ok "$name"; else not_ok "$name" "${wrong[@]}"; fi
    resumed_from=${from:-0}
}
tally() { count[$1]=$((${count[$1]:-0} + 1)); }
any_layout() { case $((RANDOM % 4)) in 0) echo one ;; 1) echo tp ;; 2) echo pp ;; *) echo zero ;; esac; }
random() { echo $(((RANDOM * 32768 + RANDOM) % $1)); }

# --- kills
phases=(begin reserve write sync read-back index publish rename marker end delete)
milliseconds() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }
slowest_end=0 slowest_case=none
# dies WHO LAYOUT FAULT ARGUMENTS...: a run in which one rank kills itself at the fault, or all are killed at once when one of
# them has stopped there. True if that happened and the run ended; how long the end took after it counts for the report.
dies() {
    local who=$1 layout=$2 fault=$3 action=kill job child children=() most=0 since='' start=$SECONDS taken
    shift 3
    [[ $who == one ]] || action=stop
    # shellcheck disable=SC2086
    TRIREME_FAULT=$fault=$action "${MPIRUN:-mpirun}" "${MPIRUN_FLAGS[@]}" -np "$(ranks_of "$layout")" "$programs/trireme" "${run[@]}" \
        ${layouts[$layout]} --save "$s/run" --load "$s/run" "$@" >"$s/stdout" 2>"$s/stderr" </dev/null &
    job=$!
    while kill -0 $job 2>/dev/null; do
        if [[ $((SECONDS - start)) -ge $hang ]]; then
            # shellcheck disable=SC2046
            kill -KILL $job $(children_of $job)
            wait $job
            return 1
        fi
        mapfile -t children < <(children_of $job)
        [[ ${#children[@]} -le $most ]] || most=${#children[@]}
        if [[ -z $since && $who == one && ${#children[@]} -lt $most ]]; then
            since=$(milliseconds)
        elif [[ -z $since && $who == all ]]; then
            for child in "${children[@]}"; do
                [[ $(awk '/^State:/{print $2}' "/proc/$child/status" 2>/dev/null) == T ]] || continue
                kill -KILL "${children[@]}"
                since=$(milliseconds)
                break
            done
        fi
        sleep 0.02
    done
    wait $job
    status=$?
    # Between two looks all may have ended.
    taken=$(($(milliseconds) - ${since:-$(milliseconds)}))
    if [[ $taken -gt $slowest_end ]]; then slowest_end=$taken slowest_case="$fault, $who killed, $layout $*"; fi
    [[ $status != 0 && ($who == one || -n $since) ]]
} 2>/dev/null
killed() { # NUMBER
    local phase=${phases[$(($1 % ${#phases[@]}))]} round=$(($1 / ${#phases[@]})) layout fault visit=1 rank=0 who=one more=()
    case $round in 0 | 3) layout=tp ;; 1 | 4) layout=pp ;; *) layout=zero ;; esac
    [[ $((round % 2)) == 0 ]] || who=all
    [[ $phase == delete ]] || visit=$((1 + round / 2 % 2))
    case $phase in write | sync | read-back) rank=$((round / 2 % 2)) ;; esac
    [[ $phase != write ]] || visit=$((1 + RANDOM % 20))
    [[ $round -lt 2 ]] || more=(--async-save)
    [[ $((round % 3)) != 1 ]] || more+=(--save-buffer-mb 1)
    [[ ${more[*]} != "--save-buffer-mb 1" ]] || more=()
    rm -rf "$s/run"
    if [[ $phase == rename && $round -gt 3 ]]; then # one is there already and is moved aside
        cp -r "$s/base.$layout" "$s/run"
        echo 2 >"$s/run/latest_checkpointed_iteration.txt"
        visit=1
    fi
    fault="save-$phase@$rank#$visit"
    dies $who "$layout" "$fault" "${more[@]}" || not_ok "kill of $who at $fault, $layout ${more[*]}" "nobody was killed, or it hung"
    tally "killed at $phase"
    resumes "kill of $who at $fault, $layout ${more[*]}" "$layout" "$(saved "$s/stdout")"
}

# --- disks
in_namespace=(unshare --mount)
can_mount=$("${in_namespace[@]}" sh -c "mount -t tmpfs none '$s'" 2>/dev/null && echo yes)
full_disk() { # LAYOUT: in a namespace with a file system of its own at $s/run; the case as a whole runs in there
    local layout=$1 size=$((60 + $(random 280))) name
    name="disk of $size KiB, $layout"
    mount -t tmpfs -o "size=${size}k" none "$s/run" || return
    train "$layout"
    [[ $status == 0 || $status == 74 ]] || not_ok "$name: it survives" "exit code $status" "${errors:0:1000}"
    [[ $(losses "$s/run/metrics.jsonl" | wc -l) == 6 ]] || not_ok "$name: it goes on" "$(tail -n 3 "$s/stderr")"
    local least
    least=$(saved "$s/stdout")
    mount -o remount,size=20m "$s/run"
    resumes "$name" "$layout" "$least"
}
failing_disk() { # NUMBER
    local layout name more=() limit least
    layout=$(any_layout)
    rm -rf "$s/run"
    mkdir "$s/run"
    [[ $((RANDOM % 2)) == 0 ]] || more=(--async-save)
    case $(($1 % 4)) in
    0) if [[ $can_mount == yes ]]; then
        export s layout
        tally "full tmpfs"
        # A copy of this shell, whose mounts nobody else sees.
        "${in_namespace[@]}" bash -c "$(declare -p run layouts programs hang longest MPIRUN_FLAGS)
            $(declare -f train ranks_of run_trireme started full_disk resumes last_losses losses saved random ok not_ok)
            scratch=\$s RANDOM=$RANDOM; full_disk $layout"
        return
    else
        echo "ok disk $1 # SKIP a file system cannot be mounted here"
        return
    fi ;;
    1)
        layout=one # the shared memory of several ranks is files, too
        limit=$((20 + $(random 120)))
        name="files of at most $limit KiB, $layout ${more[*]}"
        tally "limit on file sizes"
        # So is what Open MPI's own daemon shares with a rank.
        (ulimit -f "$limit" && export PMIX_MCA_gds=hash OMPI_MCA_btl=self && train $layout "${more[@]}" && exit "$status")
        status=$? errors=$(<"$s/stderr")
        ;;
    *)
        local phase=${phases[$((RANDOM % 10))]} action=nospace
        [[ $(($1 % 4)) == 2 ]] || action=ioerror
        name="$action at $phase, $layout ${more[*]}"
        tally "$action"
        TRIREME_FAULT=save-$phase#$((1 + RANDOM % 3))=$action train "$layout" "${more[@]}"
        ;;
    esac
    [[ $status == 0 || $status == 74 ]] || not_ok "$name: it survives" "exit code $status" "${errors:0:1000}"
    least=$(saved "$s/stdout")
    resumes "$name" "$layout" "$least"
}
# --- damage to the newest checkpoint, iteration 4; iteration 2 is whole
spoil() { # LAYOUT
    rm -rf "$s/run"
    cp -r "$s/base.$1" "$s/run"
    newest=$s/run/iter_0000004
}
flipped() { # NUMBER
    local layout=one file at size
    [[ $(($1 % 4)) != 0 ]] || layout=pp
    spoil $layout
    file=$(find "$newest" -type f | sort | sed -n "$((1 + RANDOM % $(find "$newest" -type f | wc -l)))p")
    size=$(stat -c %s "$file")
    at=$(random "$size")
    printf "\\x$(printf %02x $(($(od -An -tu1 -j "$at" -N 1 "$file") ^ (1 << RANDOM % 8))))" |
        dd of="$file" bs=1 seek="$at" conv=notrunc status=none
    resumes "a flipped bit in byte $at of ${file##*/}, $layout" $layout 2
    if [[ $resumed_from == 4 ]]; then tally "flips that did no harm"; else tally "flips that were found"; fi
}
spoilt_file() { # NUMBER
    local layout=pp file what size
    [[ $(($1 % 3)) != 0 ]] || layout=one
    spoil $layout
    file=$(find "$newest" -type f | sort | sed -n "$((1 + RANDOM % $(find "$newest" -type f | wc -l)))p")
    case $(($1 % 5)) in
    0)
        size=$(random "$(stat -c %s "$file")")
        what="cut to $size bytes: ${file##*/}"
        truncate -s "$size" "$file"
        tally "files cut short"
        ;;
    1)
        what="missing: ${file##*/}"
        rm "$file"
        tally "files missing"
        ;;
    2)
        what="of iteration 2: ${file##*/}"
        cp "$s/run/iter_0000002/${file##*/}" "$file"
        tally "files of another iteration"
        ;;
    3)
        [[ -d $s/other.$layout ]] || {
            rm -rf "$s/other"
            mv "$s/run" "$s/other"
            rm -rf "$s/run"
            train $layout --exit-interval 4 --seed 77
            mv "$s/run" "$s/other.$layout"
            mv "$s/other" "$s/run"
        }
        what="of another run: ${file##*/}"
        cp "$s/other.$layout/iter_0000004/${file##*/}" "$file"
        tally "files of another run"
        ;;
    4)
        what="empty: ${file##*/}"
        [[ ! -f $newest/stage_001.h5 ]] || {
            what="stages exchanged"
            mv "$newest/stage_000.h5" "$newest/x"
            mv "$newest/stage_001.h5" "$newest/stage_000.h5"
            mv "$newest/x" "$newest/stage_001.h5"
        }
        [[ $what == stages* ]] || : >"$file"
        tally "files exchanged or empty"
        ;;
    esac
    resumes "$what, $layout" $layout 2
    if [[ $resumed_from != 2 ]]; then
        not_ok "$what, $layout: it is found" "resumed from $resumed_from"
    else
        check_contains "$what, $layout: it is said" "$errors" "trireme: WARNING: $s/run/iter_0000002 is loaded in place of"
    fi
}

# --- markers, leases, leftovers
marked() { # NUMBER
    local layout=one marker job start=$SECONDS
    [[ $(($1 % 4)) != 3 || $(($1 % 7)) == 4 ]] || layout=zero # two jobs: of one rank, whose process is known
    spoil $layout
    marker=$s/run/latest_checkpointed_iteration.txt
    case $(($1 % 7)) in
    0)
        rm "$marker"
        tally "marker missing"
        resumes "marker missing, $layout" $layout 4
        check_contains "marker missing: it is said" "$errors" "WARNING: $s/run/iter_0000004 is loaded"
        return
        ;;
    1 | 2)
        if [[ $(($1 % 7)) == 1 ]]; then : >"$marker"; else head -c $((1 + RANDOM % 9)) /dev/urandom | tr '0-9' x >"$marker"; fi
        tally "marker empty or rubbish"
        train $layout
        check_message "rubbish in the marker, $layout" 4 "holds no iteration number" "try: write the number"
        echo 4 >"$marker"
        resumes "marker mended, $layout" $layout 4
        return
        ;;
    3)
        echo $((5 + RANDOM % 100)) >"$marker"
        tally "marker ahead of the files"
        ;;
    4) # a job that is alive, if slow: the second is refused and does no harm, the first goes on
        tally "two jobs"
        TRIREME_FAULT=save-begin@0=stop "$programs/trireme" "${run[@]}" --save "$s/run" --load "$s/run" >"$s/first" 2>&1 </dev/null &
        job=$!
        while [[ $(awk '/^State:/{print $2}' /proc/$job/status 2>/dev/null) != T && $((SECONDS - start)) -lt $hang ]]; do sleep 0.02; done
        train one
        check_message "a second job" 74 "another job saves into $s/run: process $job on " "try: another --save"
        kill -CONT $job
        wait $job
        check_equal "the first job goes on" "$?" 0
        ;;
    5) # killed with the lease in hand
        tally "leases left behind"
        TRIREME_FAULT=save-begin=kill train $layout
        check_equal "a lease is left behind" "$([[ -f $s/run/lease ]] && echo yes)" yes
        resumes "lease left behind, $layout" $layout 4
        check_contains "it is taken over, and that is said" "$output" "was left behind by process"
        return
        ;;
    6)
        cp -r "$newest" "$s/run/iter_0000006.partial"
        cp -r "$newest" "$s/run/iter_0000002.deleted"
        mv "$newest" "$newest.replaced"
        tally "leftovers of killed runs"
        resumes "leftovers, $layout" $layout 4
        check_contains "leftovers: it is said" "$output" "cleared   deleted $s/run/iter_0000006.partial"
        check_contains "what was moved aside is put back" "$output" "cleared   put back $newest"
        return
        ;;
    esac
    resumes "marker $(($1 % 7)), $layout" $layout 4
}

for layout in one tp pp zero; do reference $layout; done
check_equal "two ranks train what one rank trains, nearly" "$(cut -d ' ' -f 1 "$s/reference.tp")" "$(cut -d ' ' -f 1 "$s/reference.one")"
for ((i = 0; i < kills; i++)); do killed $i; done
for ((i = 0; i < disks; i++)); do failing_disk $i; done
for ((i = 0; i < flips; i++)); do flipped $i; done
for ((i = 0; i < files; i++)); do spoilt_file $i; done
for ((i = 0; i < markers; i++)); do marked $i; done
echo "# cases: $kills kills, $disks disks, $flips flipped bits, $files spoilt files, $markers markers, leases and leftovers"
for what in "${!count[@]}"; do echo "#   ${count[$what]} $what"; done | sort -k 3
echo "# the longest run took $longest s; from a kill to the end of its run at most $slowest_end ms ($slowest_case)"
