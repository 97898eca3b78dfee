#!/bin/bash
# README's "On a cluster", command by command on a cluster of two nodes: what is typed here is what stands there. Replaced are
# the compiling (the programs are built already), the editing of the site's file (by sed), sizes that a CPU cannot train,
# and the modules of MPI and compilers, which are the system's here.
# shellcheck source=tests/support/slurm_test.sh
. tests/support/slurm_test.sh
systems=$PWD/${BUILD:-build}/module-systems
if [[ $level != full ]]; then
    echo "ok readme # SKIP it takes a minute: make test-slurm runs it"
    exit 0
fi
if [[ ! -f $systems/lmod.bash ]]; then
    echo "ok readme # SKIP needs slurm: the module systems are not unpacked (make test-slurm does it)"
    exit 0
fi
# commands N: those of the N-th block of the section, without the remarks.
commands() {
    awk -v wanted="$1" '/^## /{on = ($0 == "## On a cluster")} !on {next}
        /^    /{if (!within) number++; within = 1; if (number == wanted) print substr($0, 5); next} {within = 0}' README.md |
        sed 's/  *# .*//'
}
setup=$(commands 1)
local_cluster=$(commands 2)
check_equal "the section has these steps" "$(grep -o '^[a-z.]*' <<<"$setup" | tr '\n' ' ')" "module make make cp . sbatch sbatch sbatch tail "

# The shell of a user who has the sources here; HOME is elsewhere.
user=$s/user
mkdir -p "$user/site"/{GCC,OpenMPI,HDF5,OpenBLAS,Boost}
for module in GCC OpenMPI HDF5 OpenBLAS Boost; do printf '#%%Module1.0\n' >"$user/site/$module/1"; done
ln -s "$PWD"/{job_templates,modules,docs,scripts,VERSION,README.md,LICENSE,CHANGELOG.md,build} "$user/"
cp tests/data/tiny/vocab.json tests/data/tiny/merges.txt "$user/"
cp tests/data/tiny/corpus.jsonl "$user/text.jsonl"
echo 'slow-share = 0.0001' >"$user/even" # nodes that share a host are uneven
small='--device cpu --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32
    --global-batch-size 8 --micro-batch-size 1 --train-samples 40 --lr-decay-samples 40 --lr-warmup-samples 8 --eval-iters 1'
cat >"$user/session" <<END
. $systems/lmod.bash >/dev/null
module use $user/site
make() {
    case \$1 in
    CPU=*) ;; # it is built
    install)
        [[ "\$2 \$3" == "modulefile PREFIX=$user/trireme" ]] || return 1
        scripts/install.sh files build "\${3#PREFIX=}" '' && scripts/install.sh modulefile "\${3#PREFIX=}" '' \${LOADEDMODULES//:/ } ;;
    esac
}
cp() { command cp "\$@" && sed -i 's|^# module use /opt/trireme|module use $user/trireme|; s|^# \(type module.*\) [^ ]*/lmod.sh.*|\1 $systems/lmod.bash|' site.env; }
sbatch() { # --wait, a size for CPUs
    case "\$*" in
    *pretrain.sbatch*) command sbatch --wait --ntasks-per-node=2 "\$@" ${small//$'\n'/ } ;;
    *preflight.sbatch*) command sbatch --wait --ntasks-per-node=2 "\$@" ${small//$'\n'/ } --expect even ;;
    *) command sbatch --wait "\$@" ;;
    esac
}
tail() { command cat trireme-*.log; }
$setup
END
(cd "$user" && env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME="$user" SLURM_CONF="$SLURM_CONF" OMPI_MCA_mpi_yield_when_idle=1 \
    bash --noprofile --norc session) >"$s/session.log" 2>&1
check_equal "it ends well" "$?" 0
session=$(<"$s/session.log")
check_contains "the module was written with what was loaded" "$session" "which need GCC/1 OpenMPI/1 HDF5/1 OpenBLAS/1 Boost/1"
check_contains "preprocessing" "$(cat "$user"/trireme-preprocess-*.log)" "--data-path corpus_text_document"
check_contains "preflight" "$(cat "$user"/trireme-preflight-*.log)" "verdict   PASS"
check_contains "training on two nodes" "$session" "2 nodes x 2 ranks"
check_contains "to the end" "$session" "ended with exit code 0 at iteration 5"
check_equal "losses and checkpoints are where it says" "$(cd "$user/runs/gpt2-124m" && echo iter_* metrics.jsonl)" "iter_0000005 metrics.jsonl"

# The second block: the same from the sources. (Its first line, the cluster, is the one that this test is in.)
rm -rf build/tiny # where that configuration saves
sed 1d <<<"$local_cluster" | sed "s|sbatch|sbatch --wait --output=$s/local.log|" >"$s/local"
(bash "$s/local") >"$s/local.out" 2>&1
check_equal "from the sources" "$? $(grep -c 'ended with exit code 0 at iteration 20' "$s/local.log")" "0 1"
