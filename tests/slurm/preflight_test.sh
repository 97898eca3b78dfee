#!/bin/bash
# preflight.sbatch on two nodes, each bound to a core of its own, finds what was planted on one of them: an interface that only
# the other has, a directory that is not shared, a full disk, a processor that others use.
export PIN=1
# shellcheck source=tests/support/slurm_test.sh
. tests/support/slurm_test.sh
if [[ $level != full ]]; then
    echo "ok preflight # SKIP it takes a minute: make test-slurm runs it"
    exit 0
fi
# Nodes that share a host are uneven: speeds are compared where a test plants a slow one only.
echo 'slow-share = 0.0001' >"$s/even"
even=(--expect "$s/even")

# preflight NAME OPTION...: on two nodes of one rank; sets ended and report.
preflight() {
    submit "$1" -N2 --ntasks-per-node=1 "$templates/preflight.sbatch" "${model[@]}" "${@:2}"
    ended=$(finished "$job")
    report=$(<"$log")
}
# finds NAME WHAT: the preflight failed, and that is the one failure.
finds() {
    check_equal "$1: exit code 6" "$ended" "FAILED 6:0"
    check_contains "$1: it is named" "$report" "verdict   FAIL: 1 failure:
          1. $2"
}
on_node() { nsenter --target "$(<"$TRIREME_CLUSTER/$1.pid")" --mount --net --pid "${@:2}"; }

preflight healthy "${even[@]}" --save "$s/save"
check_equal "nodes without faults" "$ended $(grep -c '^verdict   PASS' <<<"$report")" "COMPLETED 0:0 1"
check_contains "it sees both nodes" "$report" "preflight 2 ranks on 2 nodes"

on_node node1 ip link add hsn0 type veth peer name hsn1
on_node node1 ip link set hsn0 up
on_node node1 ip link set hsn1 up
NCCL_SOCKET_IFNAME=hsn0 preflight interface "${even[@]}" --save "$s/save"
finds "an interface that one node lacks" "NCCL_SOCKET_IFNAME=hsn0 names no interface on node2"
on_node node1 ip link del hsn0

mkdir "$s/local"
on_node node2 mount -t tmpfs tmpfs "$s/local"
preflight unshared "${even[@]}" --save "$s/local"
finds "a directory that is not shared" "cannot use --save $s/local (not shared: what rank 0 on node1 writes there is not seen): rank 1 (node2)"
on_node node2 umount "$s/local"

mkdir "$s/full"
for node in node1 node2; do on_node $node mount --bind "$TRIREME_CLUSTER/small" "$s/full"; done
preflight full "${even[@]}" --save "$s/full"
finds "a full disk" "cannot use --save $s/full (No space left on device)"

# Eight others, each a session of its own: the scheduler shares a core among sessions before it does among processes. Whatever
# else runs here may disturb once, not thrice.
found="not found in three tries"
busy=()
for _ in {1..8}; do
    on_node node2 setsid taskset -c $((1 % $(nproc))) bash -c 'while :; do :; done' &
    busy+=($!)
done
for _ in 1 2 3; do
    preflight slow
    [[ $ended == "FAILED 6:0" && $report == *"rank 1 (node2) multiplies matrices at "* ]] && found=found && break
done
check_equal "a node whose processor others use" "$found" found
kill "${busy[@]}"
