#!/bin/bash
# Checkpoints against plain files of the same bytes: ratios in one run. BENCH_DIR names a directory on the file system that
# counts (default build), RANKS the ranks (default 2), SIZE="LAYERS HIDDEN TURNS" another model than 12 x 768, five times.
# What to expect: saving at 70 % of plain parallel writes, loading with its sums at 60 % of plain reads, and one rank's step
# slower by less than 10 % while a checkpoint is written. Where reading is not much faster than writing a verified save cannot
# reach that 70 %: the second line tells the most that it can, and compares it with plain files that are read again, too.
set -eu -o pipefail
build=${BUILD:-build}
# shellcheck source=scripts/mpi_environment.sh
. scripts/mpi_environment.sh
work=$(mktemp -d "${BENCH_DIR:-$build}/checkpoint-bench-XXXXXX")
trap 'rm -rf "$work"' EXIT
read -ra size <<<"${SIZE:-}"
for ranks in 1 "${RANKS:-2}"; do
    "${MPIRUN:-mpirun}" "${MPIRUN_FLAGS[@]}" -np "$ranks" "$build/tests/bench/checkpoint" "$work" "${size[@]}" | tee -a "$work/all" |
        sed 's/[{}",:]/ /g' | awk '{
            for (i = 1; i < NF; i += 2) v[$i] = $(i + 1)
            mb = v["megabytes"]
            printf "checkpoint of %.0f MB, %d ranks: save %.0f MB/s (%.0f %% of plain writes; not read again: %.0f %%), " \
                "load %.0f MB/s (%.0f %% of plain reads), --async-save: pause %.0f ms, next step %+.1f %%\n",
                mb, v["ranks"], mb / v["save"], 100 * v["plain_write"] / v["save"],
                100 * v["plain_write"] / v["save_unread"], mb / v["load"], 100 * v["plain_read"] / v["load"],
                1000 * v["pause"], 100 * (v["step_while_saving"] / v["step"] - 1)
            printf "  plain writes, then dropped from the cache and read: %.0f MB/s; save %.0f %% of that; a save that reads after " \
                "writing reaches at most %.0f %% of plain writes on this disk\n", mb / v["plain_write_read"],
                100 * v["plain_write_read"] / v["save"], 100 / (1 + v["plain_read"] / v["plain_write"])
            printf "  processor seconds of a rank: plain write %.3f, save %.3f (not read again %.3f), plain read %.3f, load %.3f, " \
                "step %.3f, with a save beside it %.3f\n", v["plain_write_processor"], v["save_processor"],
                v["save_unread_processor"], v["plain_read_processor"], v["load_processor"], v["step_processor"],
                v["step_while_saving_processor"]
        }'
done
[ "${VERBOSE:-0}" != 1 ] || cat "$work/all"
