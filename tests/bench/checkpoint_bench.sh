#!/bin/bash
# Checkpoints against plain files of the same bytes: ratios in one run. BENCH_DIR names a directory on the file system that
# counts (default build), RANKS the ranks (default 2). What to expect: saving at 70 % of plain parallel writes, loading with
# its sums at 60 % of plain reads, and one rank's step slower by less than 10 % while a checkpoint is written.
set -eu -o pipefail
build=${BUILD:-build}
# shellcheck source=scripts/mpi_environment.sh
. scripts/mpi_environment.sh
work=$(mktemp -d "${BENCH_DIR:-$build}/checkpoint-bench-XXXXXX")
trap 'rm -rf "$work"' EXIT
for ranks in 1 "${RANKS:-2}"; do
    "${MPIRUN:-mpirun}" "${MPIRUN_FLAGS[@]}" -np "$ranks" "$build/tests/bench/checkpoint" "$work" | tee -a "$work/all" |
        sed 's/[{}",:]/ /g' | awk '{
            for (i = 1; i < NF; i += 2) v[$i] = $(i + 1)
            printf "checkpoint of %.0f MB, %d ranks: save %.0f MB/s (%.0f %% of plain writes; read again as well: %.0f %%), " \
                "load %.0f MB/s (%.0f %% of plain reads), --async-save: pause %.0f ms, next step %+.1f %%\n",
                v["megabytes"], v["ranks"], v["save"], 100 * v["save"] / v["plain_write"],
                100 * v["save_read_back"] / v["plain_write"], v["load"], 100 * v["load"] / v["plain_read"],
                1000 * v["pause"], 100 * (v["step_while_saving"] / v["step"] - 1)
        }'
done
[ "${VERBOSE:-0}" != 1 ] || cat "$work/all"
