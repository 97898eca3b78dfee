# shellcheck shell=bash
# The parts of a Slurm cluster on one host; sourced by tests/slurm/with_cluster.sh, which starts it inside namespaces, and by
# tests, which take nodes away. $TRIREME_CLUSTER is its folder: etc, log, state, one spool a node.
# A node is a slurmd in PID, mount, network, UTS and IPC namespaces of its own, with its own hostname, network card and
# /dev/shm: killing its first process is a power loss, and shared memory of two nodes cannot collide (Open MPI names its
# files after host name and local rank). Node I has address 10.77.0.1I, the controller 10.77.0.1, on a bridge.
export SLURM_CONF=$TRIREME_CLUSTER/etc/slurm.conf

# wait_for SECONDS COMMAND...: until it succeeds.
wait_for() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < end)) || return 1
        sleep 0.1
    done
}

write_slurm_conf() { # NODES
    local cpus=${CPUS:-8} gpus=${GPUS:-8} i
    cat >"$SLURM_CONF" <<END
ClusterName=local
SlurmctldHost=controller(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthInfo=socket=$TRIREME_CLUSTER/munge/socket
StateSaveLocation=$TRIREME_CLUSTER/state
SlurmdSpoolDir=$TRIREME_CLUSTER/spool/%n
TmpFS=$TRIREME_CLUSTER/spool/%n
SlurmctldPidFile=$TRIREME_CLUSTER/slurmctld.pid
SlurmdPidFile=$TRIREME_CLUSTER/spool/%n/slurmd.pid
SlurmctldLogFile=$TRIREME_CLUSTER/log/slurmctld
SlurmdLogFile=$TRIREME_CLUSTER/log/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MailProg=/bin/true
MpiDefault=pmix
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_min_interval=0,bf_interval=1
SlurmdParameters=config_overrides
GresTypes=gpu
ReturnToService=2
JobRequeue=1
SlurmdTimeout=10
KillWait=${KILL_WAIT:-20}
MinJobAge=600
END
    echo AutoDetect=off >"$TRIREME_CLUSTER/etc/gres.conf"
    mkdir "$TRIREME_CLUSTER/dev"
    for ((i = 0; i < gpus; i++)); do mknod "$TRIREME_CLUSTER/dev/nvidia$i" c 1 3; done
    ((gpus < 1)) || echo "Name=gpu File=$TRIREME_CLUSTER/dev/nvidia[$(seq -s , 0 $((gpus - 1)))]" >>"$TRIREME_CLUSTER/etc/gres.conf"
    for ((i = 1; i <= $1; i++)); do
        echo "NodeName=node$i NodeAddr=10.77.0.1$i CPUs=$cpus Sockets=1 CoresPerSocket=$cpus ThreadsPerCore=1 RealMemory=2000" \
            "$( ((gpus < 1)) || echo "Gres=gpu:$gpus") State=UNKNOWN" >>"$SLURM_CONF"
    done
    echo "PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE DefaultTime=10 State=UP" >>"$SLURM_CONF"
}

# start_node NAME: plugs it in. Its first process, as seen from here, is in $TRIREME_CLUSTER/NAME.pid.
start_node() {
    local name=$1 number=${1#node} pin=() outer
    [[ -z ${PIN:-} ]] || pin=(taskset -c $(((number - 1) % $(nproc))))
    mkdir -p "$TRIREME_CLUSTER/spool/$name"
    ip link del "port$number" 2>/dev/null || true
    # shellcheck disable=SC2016
    setsid "${pin[@]}" unshare --pid --fork --kill-child --mount --net --uts --ipc bash -c '
        mount -t proc proc /proc
        # /sys lists the network cards of the namespace that it is mounted in; what is mounted in it is taken along.
        mkdir -p "$TRIREME_CLUSTER/spool/$1/cgroup" && mount --rbind /sys/fs/cgroup "$TRIREME_CLUSTER/spool/$1/cgroup"
        mount -t sysfs sysfs /sys && mount --rbind "$TRIREME_CLUSTER/spool/$1/cgroup" /sys/fs/cgroup
        mount -t tmpfs -o size=2g,mode=1777 tmpfs /dev/shm
        hostname "$1"
        until ip link show eth0; do sleep 0.02; done
        ip link set lo up
        ip addr add "10.77.0.1$2/24" dev eth0
        ip link set eth0 up
        slurmd -D -N "$1" -f "$SLURM_CONF" & slurmd=$!
        trap "kill $slurmd" TERM
        while kill -0 $slurmd; do wait $slurmd; done' slurm-node "$name" "$number" </dev/null >"$TRIREME_CLUSTER/log/$name.out" 2>&1 &
    outer=$!
    wait_for 10 grep -q . "/proc/$outer/task/$outer/children" || return 1
    tr -d ' ' <"/proc/$outer/task/$outer/children" >"$TRIREME_CLUSTER/$name.pid"
    ip link add "port$number" type veth peer name eth0 netns "$(<"$TRIREME_CLUSTER/$name.pid")"
    ip link set "port$number" master switch up
}

# kill_node NAME: its power fails. Slurm notices after SlurmdTimeout, or at once when it is told (lose_node).
kill_node() { kill -KILL "$(<"$TRIREME_CLUSTER/$1.pid")"; }
lose_node() { kill_node "$1" && scontrol update nodename="$1" state=down reason="power loss"; }

idle_nodes() { [[ $(sinfo -h -N -o %t | grep -c '^idle$') == "$1" ]]; }

start_cluster() { # NODES
    local i
    mkdir -p "$TRIREME_CLUSTER"/{etc,log,state,spool,munge,small}
    mount -t tmpfs -o size=4m tmpfs "$TRIREME_CLUSTER/small" # shared, and soon full
    write_slurm_conf "$1"
    hostname controller
    ip link set lo up
    ip link add switch type bridge
    ip addr add 10.77.0.1/24 dev switch
    ip link set switch up
    (umask 077 && head -c 128 /dev/urandom >"$TRIREME_CLUSTER/munge/key")
    munged --force --socket="$TRIREME_CLUSTER/munge/socket" --key-file="$TRIREME_CLUSTER/munge/key" \
        --log-file="$TRIREME_CLUSTER/log/munged" --pid-file="$TRIREME_CLUSTER/munge/pid" \
        --seed-file="$TRIREME_CLUSTER/munge/seed" 2>/dev/null
    slurmctld -f "$SLURM_CONF"
    wait_for 20 scontrol ping || return 1
    for ((i = 1; i <= $1; i++)); do start_node "node$i" || return 1; done
    wait_for 30 idle_nodes "$1"
}
