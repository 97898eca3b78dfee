#!/bin/bash
# A real Slurm (munge, slurmctld, a slurmd for each of 1 to 9 "nodes") on this one host, for as long as a command runs:
#   tests/slurm/with_cluster.sh NODES COMMAND...     e.g. with_cluster.sh 2 bash, and in there sinfo, sbatch, srun
#   tests/slurm/with_cluster.sh --check              says in a line why that cannot work here, and exits 1
# The command and the cluster live in namespaces of their own (processes, mounts, network), files on a tmpfs: when the
# command ends, or is ended in whatever way, the kernel ends every process of the cluster and nothing is left behind.
# Nothing of the host's own Slurm or munge is touched, and several clusters can run side by side. Needs root.
# CPUS and GPUS: what each node claims to have (8 and 8; the GPUs are null devices, enough for Slurm to count them).
# PIN=1 binds everything on node I to core I - 1 of this host.
set -euo pipefail

missing() {
    local tool
    [[ $(id -u) == 0 ]] || { echo "a cluster on one host needs root" && return; }
    for tool in slurmctld slurmd sbatch munged unshare ip; do
        command -v $tool >/dev/null || { echo "$tool is not installed (make test-slurm installs it)" && return; }
    done
    unshare --pid --fork --mount --net --uts --ipc true 2>/dev/null || echo "this container forbids namespaces"
}
reason=$(missing)
if [[ -n $reason ]]; then
    echo "$reason"
    exit 1
fi
[[ ${1:-} != --check ]] || exit 0

here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
if [[ ${1:-} != --inside ]]; then
    [[ ${1:-} == [1-9] && $# -ge 2 ]] || { sed -n '2,/^# CPUS/s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
    TRIREME_CLUSTER=$(mktemp -d /tmp/trireme-cluster.XXXXXX)
    export TRIREME_CLUSTER
    trap 'rmdir "$TRIREME_CLUSTER"' EXIT
    trap 'exit 130' INT TERM
    unshare --pid --fork --kill-child --mount --mount-proc --net --uts --ipc "$0" --inside "$@"
    exit
fi
shift
trap 'exit 130' INT TERM # the first process of a namespace gets no signal that it does not ask for
mount -t tmpfs -o mode=755 tmpfs "$TRIREME_CLUSTER"
# shellcheck source=tests/support/cluster.sh
. "$here/../support/cluster.sh"
start_cluster "$1" || { tail -n 20 "$TRIREME_CLUSTER"/log/* >&2 && exit 1; }
shift
"$@"
