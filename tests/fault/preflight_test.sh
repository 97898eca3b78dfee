#!/bin/bash
# A preflight finds each fault that is planted: a network interface that is not there, a directory that is not shared, a full
# disk, missing data, a slow rank, a GPU with memory errors; and nothing where nothing is.
# shellcheck source=tests/support/program_test.sh
. tests/support/program_test.sh
s=$scratch
host=$(hostname)
# A machine that runs other tests is uneven: speeds are compared where a test plants a slow one only.
echo 'slow-share = 0.0001' >"$s/even"
checked=(preflight --device cpu --expect "$s/even")
data=(--data-path 0.5 tests/data/tiny/corpus_text_document 0.5 tests/data/tiny/corpus.jsonl)

# finds NAME TEXT: the last run failed with exactly one failure, which says that.
finds() {
    check_equal "$1: exit code 6" "$status" 6
    check_contains "$1: it is found" "$output" "failure   $2"
    check_contains "$1: the verdict has it" "$output" "verdict   FAIL: 1 failure:
          1. $2"
    check_lacks "$1: it is no error" "$errors" "trireme: error"
}
# by_rank COMMAND: 4 ranks of a command of the shell, in which $rank is known.
by_rank() { started 4 sh -c "rank=\$OMPI_COMM_WORLD_RANK; $1"; }

run_well "a machine without faults" 4 "${checked[@]}" --tensor-model-parallel-size 2 --save "$s/save" "${data[@]}"
check_contains "it passes" "$(tail -n 1 "$s/stdout")" "verdict   PASS"
check_contains "it names the layout" "$output" "preflight 4 ranks on 1 node: TP 2 x PP 1 x DP 2"
check_equal "all groups of the layout are there" "$(grep -c '^\(tensor\|data\) .* inside \|^\(tensor\|data\)  *inside' "$s/stdout")" 4
check_equal "nothing stays in --save" "$(find "$s/save" -type f | wc -l)" 0
run_well "alone" 1 "${checked[@]}"
run_well "json" 2 "${checked[@]}" --pipeline-model-parallel-size 2 --json --save "$s/save"
if command -v python3 >/dev/null; then
    check_equal "json: as a program reads it" "$(python3 -c '
import json, sys
report = json.load(open(sys.argv[1]))
print(report["verdict"], len(report["ranks"]), report["ranks"][1]["members.pipeline"], report["ranks"][1]["matrix_gflops"] > 0)
' "$s/stdout" 2>&1)" "PASS 2 0,1 True"
fi
# The options of a run serve as they are.
run_well "with a run's configuration" 2 preflight --config tests/configs/tiny.cfg --expect "$s/even" --save "$s/save"

export NCCL_SOCKET_IFNAME=hsn
run_trireme 2 "${checked[@]}"
finds "wrong interface" "NCCL_SOCKET_IFNAME=hsn names no interface on $host (there are "
unset NCCL_SOCKET_IFNAME

by_rank "exec '$programs/trireme' ${checked[*]} --save $s/node\$((rank / 2))"
finds "unshared directory" "cannot use --save $s/node1 (not shared: what rank 0 on $host writes there is not seen): rank 2 ($host), rank 3 ($host)"

by_rank "exec '$programs/trireme' ${checked[*]} --data-path \$([ \$rank = 1 ] && echo $s/absent || echo tests/data/tiny/corpus_text_document)"
finds "missing data" "cannot read $s/absent.idx (No such file or directory): rank 1 ($host)"
: >"$s/not-a-directory"
run_trireme 2 "${checked[@]}" --save "$s/not-a-directory"
check_equal "no directory: exit code 6" "$status" 6
check_contains "no directory: it is found" "$output" "cannot use --save $s/not-a-directory ("

if [[ $(id -u) == 0 ]] && mkdir "$s/full" && mount -t tmpfs -o size=8m tmpfs "$s/full" 2>/dev/null; then
    run_trireme 2 "${checked[@]}" --save "$s/full"
    check_equal "full disk: exit code 6" "$status" 6
    check_contains "full disk: it is found" "$output" "cannot use --save $s/full (No space left on device): rank "
    check_equal "full disk: what was written is gone" "$(find "$s/full" -type f | wc -l)" 0
    umount "$s/full"
else
    echo "ok full disk # SKIP needs root: a file system of 8 MiB is mounted"
fi

# One rank with the kernels of a processor of 2004. Whatever else runs here may disturb once, not thrice.
slow="not found in three tries"
for _ in 1 2 3; do
    by_rank "[ \$rank = 2 ] && export OPENBLAS_CORETYPE=Prescott; exec '$programs/trireme' preflight --device cpu"
    [[ $output == *"failure   rank 2 ($host) multiplies matrices at "* ]] && slow=found && break
done
check_equal "slow rank: it is named" "$slow" found
echo 'matrix-gflops = 1e9' >>"$s/even"
run_trireme 1 "${checked[@]}"
finds "slower than expected" "rank 0 ($host) multiplies matrices at "
echo 'speed = 1' >"$s/wrong"
check_refused "expectations that mean nothing" 2 2 "$s/wrong:1: no expectation is read from: speed = 1" "matrix-gflops" \
    preflight --device cpu --expect "$s/wrong"
check_refused "a layout that does not fit" 3 2 "3 ranks do not fit TP 2 x PP 1" "try: 2 or 4 ranks" \
    preflight --device cpu --tensor-model-parallel-size 2
check_refused "an option of preflight alone" 1 2 "--json is an option of trireme preflight" "" "${tiny[@]}" --json
echo 'slow-share = 0.0001' >"$s/even"

# GPUs through a library that answers as NVIDIA's would, next to a tree of a node with InfiniBand.
cat >"$s/nvml.c" <<'C'
#include <string.h>
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned* n) { *n = 2; return 0; }
int nvmlSystemGetDriverVersion(char* to, unsigned size) { strncpy(to, "580.1", size); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** d) { *d = (void*)(long)(i + 1); return 0; }
int nvmlDeviceGetName(void* d, char* to, unsigned size) { strncpy(to, "A made-up GPU", size); return 0; }
int nvmlDeviceGetPciInfo_v3(void* d, struct { char a[16]; unsigned b[5]; char c[32]; } * p) {
    strcpy(p->c, d == (void*)1 ? "00000000:3C:00.0" : "00000000:AF:00.0");
    return 0;
}
int nvmlDeviceGetTotalEccErrors(void* d, int type, int counter, unsigned long long* n) {
    *n = d == (void*)2 && type == 1 && counter == 0 ? 3 : 0;
    return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* d, unsigned long long* r) { *r = 0x4; return 0; }
C
if ${CC:-cc} -w -shared -fPIC -o "$s/libnvidia-ml.so.1" "$s/nvml.c" 2>"$s/stderr"; then
    started 1 env LD_LIBRARY_PATH="$s:${LD_LIBRARY_PATH:-}" TRIREME_SYSFS_ROOT=tests/data/sysfs/infiniband \
        "$programs/trireme" "${checked[@]}"
    check_equal "gpus: exit code 6" "$status" 6
    check_contains "gpus: an error of memory" "$output" "failure   GPU 1 on $host has had 3 uncorrected memory errors"
    check_contains "gpus: each with its NIC" "$output" \
        "0: A made-up GPU, NIC mlx5_0 (same switch); 1: A made-up GPU, NIC mlx5_1 (same host bridge)"
    check_contains "gpus: a port without a cable" "$output" "port mlx5_1:1 on $host is DOWN (Disabled)"
    check_contains "gpus: locked memory that the network lacks" \
        "$(ulimit -l | grep -q unlimited && echo "may be locked" || echo "$output")" "may be locked"
    check_lacks "gpus: a cap on power is no fault" "$output" "held back"
else
    not_ok "gpus" "the made-up library does not compile" "$(<"$s/stderr")"
fi
