#!/bin/bash
# The build system on a project of three tiny sources: it rebuilds what must be rebuilt and nothing else, and what is
# missing is one message.
. tests/support/shell_test.sh
mkdir -p "$scratch"/project/{src/base,src/app,data_tools,include/trireme/base,tests/support}
cp -R Makefile make scripts VERSION README.md LICENSE CHANGELOG.md docs job_templates modules "$scratch/project/"
cp include/trireme/base/build_info.hpp "$scratch/project/include/trireme/base/"
cd "$scratch/project" || exit 1
export GIT_CEILING_DIRECTORIES=$scratch GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
echo 'base:' >src/layers.txt
echo 'inline int value() { return 3; }' >src/base/value.hpp
printf '#include "base/value.hpp"\nint twice() { return 2 * value(); }\n' >src/base/twice.cpp
cat >src/app/main.cpp <<'END'
#include "trireme/base/build_info.hpp"
#include <iostream>
int twice();
int main() { std::cout << trireme::build_info().version << " " << trireme::build_info().commit << " " << twice() << std::endl; }
END
echo 'int main() { return 0; }' >data_tools/main.cpp
build() { make -j2 CXXFLAGS="${flags:--O0}" "$@" >output 2>&1; }
# The files that the last build compiled.
compiled() { sed -n 's/^compile //p' output | sort | tr '\n' ' '; }

build
check_equal "a first build succeeds" "$?" 0
[[ -x build/bin/trireme ]] || cat output
check_equal "it compiles every source" "$(compiled)" "data_tools/main.cpp src/app/main.cpp src/base/twice.cpp "
check_contains "it says what it found" "$(cat output)" "HDF5 "
check_equal "the program knows its version; no commit outside git" "$(build/bin/trireme)" "$(cat VERSION) unknown 6"
build
check_equal "a second build compiles nothing" "$(compiled)$(grep -c link output)" 0
sleep 0.01
echo 'inline int value() { return 5; }' >src/base/value.hpp
build
check_equal "a changed header rebuilds its users" "$(compiled)$(build/bin/trireme)" "src/base/twice.cpp $(cat VERSION) unknown 10"
flags=-O1 build
check_equal "changed flags rebuild all" "$(compiled)" "data_tools/main.cpp src/app/main.cpp src/base/twice.cpp "
flags=-O1 build
check_equal "the same flags again rebuild nothing" "$(compiled)" ""
printf 'build/\noutput\n' >.gitignore
git init -q . && git add -A && git commit -qm one
flags=-O1 build
check_equal "a commit rebuilds no source" "$(compiled)$(build/bin/trireme)" "$(cat VERSION) $(git rev-parse --short=7 HEAD) 10"
git mv src/base/twice.cpp src/base/double.cpp
flags=-O1 build
check_equal "a renamed source leaves nothing behind" "$? $(compiled)$(ar t build/libtrireme.a | sort | tr '\n' ' ')" \
    "0 src/base/double.cpp build_info.o double.o "
echo 'int unused_parameter(int value) { return 1; }' >src/base/warns.cpp
flags=-O1 build WERROR=1
check_equal "WERROR=1 makes a warning an error" "$?" 2
rm src/base/warns.cpp

flags=-O1 build clean all
check_equal "clean all builds anew" "$? $(compiled)$(build/bin/trireme | cut -d ' ' -f 3)" \
    "0 data_tools/main.cpp src/app/main.cpp src/base/double.cpp 10"
flags=-O1 build
check_equal "and after that there is nothing to do" "$(compiled)" ""
make BUILD=. clean >output 2>&1
check_equal "clean does not remove the project" "$? $(ls -d src)" "2 src"

make CUDA=2 >output 2>&1
check_equal "CUDA=2 is an error" "$?" 2
check_contains "CUDA=2 says what is meant" "$(cat output)" "0, 1 or auto"
make BUILD=other CUDA=1 NVCC=/nowhere/nvcc >output 2>&1
check_equal "CUDA=1 without nvcc is an error" "$?" 2
check_contains "CUDA=1 says what is missing" "$(cat output)" "missing: CUDA"
make BUILD=other CUDA=auto NVCC=/nowhere/nvcc config >output 2>&1
check_equal "CUDA=auto without nvcc is none" "$?" 0
check_contains "CUDA=auto says what GPUs would need" "$(cat output)" "only GPUs need it"
# Where all else of CUDA is here: without cudnn-frontend attention would be slow in silence.
make BUILD=other CUDA=auto config >output 2>&1
if grep -q 'NCCL  *[0-9]' output; then
    make BUILD=other CUDA=1 config >output 2>&1
    check_equal "CUDA=1 without cudnn-frontend is an error" "$? $(grep -c 'missing: cudnn-frontend$' output)" "2 1"
    check_contains "which says how to get it" "$(cat output)" "make deps CUDA=1 BUILD=other"
    make BUILD=other CUDA=auto CUDNN_FRONTEND_ROOT=/nowhere config >output 2>&1
    check_equal "a root that does not hold it is an error" "$? $(grep -c 'cudnn-frontend not in /nowhere' output)" "2 1"
    make BUILD=other CUDA=1 CUDNN_FRONTEND_ROOT=none config >output 2>&1
    check_equal "unless it is left out by name" "$? $(grep -c 'own, slower attention' output)" "0 1"
    make BUILD=other CUDA=auto config >output 2>&1
    check_equal "CUDA=auto says that it lacks" "$? $(grep -c 'own, slower attention' output)" "0 1"
else
    echo "ok CUDA=1 without cudnn-frontend is an error # SKIP needs cuda: this machine lacks CUDA, cuDNN or NCCL"
fi
make BUILD=other HDF5_ROOT=/nowhere BLAS_LIBS=-lnosuchblas >output 2>&1
check_equal "missing libraries are an error" "$?" 2
check_contains "all of them are in one line" "$(cat output)" "missing: HDF5, BLAS"
check_contains "with the Debian packages" "$(cat output)" "libhdf5-openmpi-dev libopenblas-dev"
check_contains "with the modules" "$(cat output)" "module load HDF5 OpenBLAS"
make BUILD=other CXX=no-such-compiler >output 2>&1
check_equal "a missing compiler is an error" "$?" 2
check_contains "a missing compiler is named" "$(cat output)" "missing: compiler,"
make help >output 2>&1
for target in all deps demo test test-all unit layout fault oracle bench test-slurm format lint check-layers config install modulefile clean; do
    check_contains "help lists $target" "$(cat output)" "make $target "
done
check_contains "config shows values" "$(make config BOOST_ROOT='' CXXFLAGS=-O1)" "CXXFLAGS = -O1  (command line)"
make install CXXFLAGS=-O1 PREFIX=/opt/trireme DESTDIR="$scratch/stage" >output 2>&1
check_equal "install" "$? $(cd "$scratch/stage" && find . -path '*/docs/*' -o -path '*/configs/*' -o -type f -print | sort | tr '\n' ' ')" \
    "0 $(printf './opt/trireme/%s ' bin/trireme bin/trireme-data share/doc/trireme/{CHANGELOG.md,LICENSE,README.md} share/man/man1/trireme.1 \
        share/trireme/job_templates/{apptainer.def,common.sh,debug.sh,preflight.sbatch,preprocess.sbatch,pretrain-array-chain.sbatch} \
        share/trireme/job_templates/{pretrain.sbatch,sites/EXAMPLE.env})"
LOADEDMODULES=GCC/12:OpenMPI/4.1 make modulefile PREFIX=/opt/trireme DESTDIR="$scratch/stage" >output 2>&1
check_equal "modulefile asks for what is loaded" "$? $(grep -h 'prereq\|depends_on' "$scratch/stage/opt/trireme/modulefiles/trireme/$(cat VERSION)"* | tr '\n' ' ')" \
    '0 prereq GCC/12 prereq OpenMPI/4.1 depends_on("GCC/12") depends_on("OpenMPI/4.1") '
