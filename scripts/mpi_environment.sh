# shellcheck shell=bash
# Sourced by scripts that start mpirun: settings for many ranks on few cores, as root or not, in a container or not.
# Each keeps what the user has set. Defines MPIRUN_FLAGS (an array).
mpi_default() { [[ -n ${!1:-} ]] || export "$1=$2"; }

mpi_default OMPI_ALLOW_RUN_AS_ROOT 1
mpi_default OMPI_ALLOW_RUN_AS_ROOT_CONFIRM 1
# More ranks than cores: waiting ranks must give up their core (ten times faster on 16 ranks).
mpi_default OMPI_MCA_rmaps_base_oversubscribe 1
mpi_default OMPI_MCA_mpi_yield_when_idle 1
# Two jobs on one machine would both be bound to its first cores.
mpi_default OMPI_MCA_hwloc_base_binding_policy none
# Containers forbid the system call that copies from another process, and Open MPI then complains at each message.
mpi_default OMPI_MCA_btl_vader_single_copy_mechanism none
# A machine without ssh: local ranks need none, but Open MPI looks for it.
command -v ssh >/dev/null 2>&1 || mpi_default OMPI_MCA_plm_rsh_agent sh
mpi_default OPENBLAS_NUM_THREADS 1

MPIRUN_FLAGS=()
# shellcheck disable=SC2034
if "${MPIRUN:-mpirun}" --version 2>/dev/null | grep -qi 'open *mpi\|open-mpi'; then MPIRUN_FLAGS=(--oversubscribe); fi
