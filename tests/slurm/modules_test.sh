#!/bin/bash
# `make install` and `make modulefile`: what a non-interactive shell gets from the module, in Lmod and in Environment Modules.
# shellcheck source=tests/support/shell_test.sh
. tests/support/shell_test.sh
systems=${BUILD:-build}/module-systems
if [[ ! -f $systems/lmod.bash || ! -f $systems/tcl.bash ]]; then
    echo "ok modules # SKIP needs slurm: the module systems are not unpacked (make test-slurm does it)"
    exit 0
fi
version=$(<VERSION)
prefix="$scratch/opt/trireme $version" # a blank in a path is common on shared file systems
scripts/install.sh files "${BUILD:-build}" "$prefix" '' >"$scratch/output" 2>&1
check_equal "install" "$?" 0
scripts/install.sh modulefile "$prefix" '' GCC/12 OpenMPI/4.1 >"$scratch/output" 2>&1
check_equal "modulefile" "$?" 0
scripts/install.sh modulefile "$prefix" "$scratch/stage" >"$scratch/output" 2>&1
check_equal "DESTDIR is where it lands, not what it says" \
    "$(grep -rl "stage" "$scratch/stage$prefix"; find "$scratch/stage$prefix" -type f -printf '%P\n' | sort | tr '\n' ' ')" \
    "modulefiles/trireme/$version modulefiles/trireme/$version.lua "
scripts/install.sh modulefile relative '' >"$scratch/output" 2>&1
check_equal "a relative prefix is refused" "$? $(<"$scratch/output")" "2 modulefile: PREFIX=relative: an absolute path is meant"

# What the module asks for, and another version of it.
mkdir -p "$scratch/site"/{GCC,OpenMPI} "$scratch/older/trireme"
for module in site/GCC/12 site/OpenMPI/4.1 older/trireme/0.0; do
    printf '#%%Module1.0\nsetenv HAS_%s yes\n' "$(basename "${module%/*}")" >"$scratch/$module"
done

# in_shell SYSTEM COMMANDS: what they print in a clean shell that is not interactive.
in_shell() {
    env -i PATH=/usr/bin:/bin HOME="$scratch" MODULES_AUTO_HANDLING="${handling:-1}" bash --noprofile --norc -c ". '$PWD/$systems/$1.bash' >/dev/null
        module use '$scratch/site' '$prefix/modulefiles'; $2" 2>&1
}
loaded='module load GCC/12 OpenMPI/4.1 trireme'
# shellcheck disable=SC2016 # expanded by the shell under test
for system in lmod tcl; do
    check_equal "$system: the programs are found" "$(in_shell $system "$loaded"' && type -p trireme && type -p trireme-data')" \
        "$prefix/bin/trireme"$'\n'"$prefix/bin/trireme-data"
    check_equal "$system: they start" "$(in_shell $system "$loaded && trireme info | head -n 1 | cut -d ' ' -f 4")" "$version"
    check_equal "$system: variables" "$(in_shell $system "$loaded"'; echo "$TRIREME_HOME $TRIREME_TEMPLATES"; ls -d "$TRIREME_TEMPLATES/pretrain.sbatch"')" \
        "$prefix $prefix/share/trireme/job_templates"$'\n'"$prefix/share/trireme/job_templates/pretrain.sbatch"
    check_contains "$system: whatis" "$(in_shell $system "module whatis trireme")" "pre-training of GPTs on Slurm"
    check_contains "$system: help" "$(in_shell $system "module help trireme")" "templates for sbatch"
    check_equal "$system: unloading takes all of it back" \
        "$(in_shell $system 'before=$PATH; '"$loaded"'; module unload trireme; echo "${TRIREME_HOME:-} ${TRIREME_TEMPLATES:-} $(type -p trireme) ${PATH#"$before"}"')" "   "
    check_contains "$system: another version is not loaded beside it" \
        "$(in_shell $system "module use $scratch/older; module load trireme/0.0; $loaded/$version"'; echo "$LOADEDMODULES"' | tail -n 1 | tr : '\n' | grep -c trireme)" 1
    if command -v man >/dev/null; then
        check_equal "$system: the manual page, and others still" \
            "$(in_shell $system "$loaded && man -w trireme && man -w man | xargs -n 1 basename")" "$prefix/share/man/man1/trireme.1"$'\nman.1.gz'
    fi
done
# Without what it needs: Lmod and, as they are by default, Environment Modules load it; the latter refuse if told to.
# shellcheck disable=SC2016
for system in lmod tcl; do
    check_equal "$system: what it needs is loaded with it" "$(in_shell $system 'module load trireme; echo "$HAS_GCC $HAS_OpenMPI"' | tail -n 1)" "yes yes"
done
missing=$(handling=0 in_shell tcl 'module load trireme || echo refused')
check_contains "tcl: or it says what is missing" "$missing" "GCC/12"
check_contains "tcl: and is not loaded" "$missing" "refused"
if command -v groff >/dev/null; then
    check_equal "the manual page has no mistakes" "$(groff -man -ww -Tutf8 "$prefix/share/man/man1/trireme.1" 2>&1 >/dev/null)" ""
fi
