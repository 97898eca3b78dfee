#!/bin/sh
# Finds the compiler and the libraries by compiling and linking a small program with each, so that what is reported
# as found does work. The environment names what the user chose (CXX, MPI_CFLAGS, HDF5_ROOT ...; make/settings.mk).
#   find_dependencies.sh BUILD   writes BUILD/config.txt (the report) and BUILD/config.mk (flags for make); when
#                                something that the programs need is missing: the report, the remedies, exit 1
#   find_dependencies.sh --packages   prints the Debian packages of what is missing, tests included; always exit 0
#   find_dependencies.sh --reader-packages    the same for the programs of others that tests read our checkpoints with
#   find_dependencies.sh --cluster-packages   the same for what tests/slurm needs: a Slurm, and what module systems stand on
set -u
mode=${1:?usage: find_dependencies.sh BUILD, or --packages}
CXX=${CXX:-g++}
CPU=${CPU:-native}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
report=$work/report
: >"$report"
packages='' modules='' lacking='' flags='' libs='' cxx_works='' nvcc='' cuda_found=0 cuda_arch='' cuda_cflags='' cuda_libs=''

yes() { printf '  \342\234\223 %-11s %s\n' "$1" "$2" >>"$report"; }
# no NAME NEEDED_BY PACKAGES MODULES VARIABLES
no() {
    if [ "$1" = compiler ] || [ -n "$cxx_works" ]; then found='not found'; else found='cannot be checked without a compiler'; fi
    printf '  \342\234\227 %-11s %s%s: Debian package %s, module %s, or set %s\n' "$1" "$found" \
        "$([ "$2" = programs ] || echo " (only $2 need it)")" "$3" "$4" "$5" >>"$report"
    packages="$packages $3"
    if [ "$2" = programs ]; then
        lacking="$lacking, $1"
        modules="$modules $4"
    fi
}
have() { command -v "$1" >/dev/null 2>&1; }
has_pc() { have pkg-config && pkg-config --exists "$1" 2>/dev/null; }

# build CFLAGS LIBS < SOURCE: true if the program compiles and links.
build() {
    cat >"$work/probe.cpp"
    # shellcheck disable=SC2086
    $CXX -std=c++20 -O0 -pthread -DOMPI_SKIP_MPICXX=1 -DMPICH_SKIP_MPICXX=1 $1 "$work/probe.cpp" -o "$work/probe" $2 >"$work/log" 2>&1
}
# macros CFLAGS HEADER MACRO...: the values of the macros, quotes and blanks dropped.
macros() {
    cflags=$1 header=$2
    shift 2
    # shellcheck disable=SC2086
    printf '#include <%s>\ntrireme_values %s\n' "$header" "$*" | $CXX $cflags -x c++ -E -P - 2>/dev/null |
        sed -n 's/^trireme_values //p' | tr -d '"'
}
dotted() { echo "$1" | sed 's/ *\. */./g; s/ /./g'; }
only_includes() { for word in $1; do case $word in -I* | -D* | -isystem*) printf '%s ' "$word" ;; esac done; }
# Everything for the linker. The C++ bindings of MPI are not used, and newer MPIs do not have them.
only_libs() {
    for word in $1; do
        case $word in -I* | -D* | -O* | -g | -pthread | -lmpi_cxx | -lmpicxx) ;; *) printf '%s ' "$word" ;; esac
    done
}
root_cflags() { [ -z "$1" ] || printf -- '-I%s/include' "$1"; }
root_libs() {
    [ -n "$1" ] || return 0
    lib=lib
    [ -d "$1/lib" ] || lib=lib64
    printf -- '-L%s/%s -Wl,-rpath,%s/%s ' "$1" "$lib" "$1" "$lib"
}
take() { flags="$flags $1" libs="$libs $2"; }

# Debian's h5py and h5dump stand on a serial HDF5 without headers or pkg-config: the build does not see it.
find_readers() {
    have h5dump || packages="$packages hdf5-tools"
    "${PYTHON:-python3}" -c 'import h5py' 2>/dev/null || /usr/bin/python3 -c 'import h5py' 2>/dev/null ||
        packages="$packages python3-h5py"
}

find_cluster() {
    have slurmctld && have slurmd && have sbatch || packages="$packages slurm-wlm"
    have munged || packages="$packages munge"
    have ip || packages="$packages iproute2"
    lua5.3 -e 'require("posix") require("lfs") require("term") require("json")' 2>/dev/null ||
        packages="$packages lua5.3 lua-posix lua-filesystem lua-term lua-json"
    have tclsh8.6 || packages="$packages tcl8.6"
}

find_compiler() {
    cxx_version=$($CXX -dumpfullversion 2>/dev/null)
    if ! have "${CXX%% *}" || ! build "-march=$CPU" '' <<'END'
#include <bit>
#include <concepts>
#include <source_location>
#include <span>
#include <stop_token>
#include <thread>
int main() { std::jthread thread([](std::stop_token) {}); return std::has_single_bit(std::span<int>().size() + 1u) ? 0 : 1; }
END
    then
        no compiler programs g++ GCC "CXX (C++20 as in g++ 11 or newer) and CPU (this was: $CXX -march=$CPU)"
        return 1
    fi
    cxx_works=yes
    cpu=$($CXX "-march=$CPU" -Q --help=target 2>/dev/null | awk '$1 == "-march=" {print $2; exit}')
    yes compiler "$CXX $cxx_version, for $CPU${cpu:+ = $cpu}"
}

find_mpi() {
    wrapper=${MPICXX:-mpicxx}
    if [ -n "${MPI_CFLAGS-}${MPI_LIBS-}" ]; then
        c=${MPI_CFLAGS-} l=${MPI_LIBS-} from='MPI_CFLAGS, MPI_LIBS'
    elif have "$wrapper" && c=$($wrapper -showme:compile 2>/dev/null) && l=$($wrapper -showme:link 2>/dev/null); then
        c=$(only_includes "$c") l=$(only_libs "$l") from=$(command -v "$wrapper") # Open MPI
    elif have "$wrapper" && l=$($wrapper -show 2>/dev/null); then
        # MPICH, Intel MPI, MVAPICH: "g++ -I... -L... -lmpi"; the first word is the compiler.
        l=${l#* } from=$(command -v "$wrapper")
        c=$(only_includes "$l") l=$(only_libs "$l")
    elif has_pc ompi-c; then
        c=$(pkg-config --cflags ompi-c) l=$(pkg-config --libs ompi-c) from='pkg-config ompi-c'
    else
        c='' l=-lmpi from="the compiler's own paths"
    fi
    if build "$c" "$l" <<'END'
#include <mpi.h>
int main() { int flag = 0; return MPI_Initialized(&flag); }
END
    then
        version=$(macros "$c" mpi.h OMPI_MAJOR_VERSION . OMPI_MINOR_VERSION . OMPI_RELEASE_VERSION)
        case $version in
        *OMPI*)
            version=$(macros "$c" mpi.h MPICH_VERSION)
            case $version in MPICH_VERSION | '') version='an MPI' ;; *) version="MPICH $version or kin" ;; esac ;;
        *) version="Open MPI $(dotted "$version")" ;;
        esac
        mpi_cflags=$c mpi_libs=$l
        take "$c" "$l"
        yes MPI "$version ($from)"
    else
        no MPI programs 'libopenmpi-dev openmpi-bin' OpenMPI 'MPICXX, or MPI_CFLAGS and MPI_LIBS'
    fi
    if have "${MPIRUN:-mpirun}"; then
        yes mpirun "$(command -v "${MPIRUN:-mpirun}")"
    else
        no mpirun 'demo and tests' openmpi-bin OpenMPI MPIRUN
    fi
}

find_hdf5() {
    pc=''
    for name in hdf5-openmpi hdf5-mpich hdf5; do
        if has_pc $name; then
            pc=$name
            break
        fi
    done
    h5pcc=$(command -v h5pcc 2>/dev/null)
    if [ -n "${HDF5_CFLAGS-}${HDF5_LIBS-}" ]; then
        c=${HDF5_CFLAGS-} l=${HDF5_LIBS-} from='HDF5_CFLAGS, HDF5_LIBS'
    elif [ -n "${HDF5_ROOT-}" ]; then
        c=$(root_cflags "$HDF5_ROOT") l="$(root_libs "$HDF5_ROOT")-lhdf5" from=$HDF5_ROOT
    elif [ -n "$h5pcc" ] && { [ -z "$pc" ] || [ "${h5pcc#/usr/bin/}" = "$h5pcc" ]; }; then
        # One from a module comes before the system's.
        prefix=${h5pcc%/bin/h5pcc}
        c=$(root_cflags "$prefix") l="$(root_libs "$prefix")-lhdf5" from=$h5pcc
    elif [ -n "$pc" ]; then
        c=$(pkg-config --cflags $pc) l=$(pkg-config --libs $pc) from="pkg-config $pc"
    else
        c='' l=-lhdf5 from="the compiler's own paths"
    fi
    if build "$mpi_cflags $c" "$l $mpi_libs" <<'END'
#include <mpi.h>
#include <hdf5.h>
#ifndef H5_HAVE_PARALLEL
#error built without MPI
#endif
int main() {
    int flag = 0;
    return MPI_Initialized(&flag) + (H5Pset_fapl_mpio(H5Pcreate(H5P_FILE_ACCESS), MPI_COMM_SELF, MPI_INFO_NULL) < 0);
}
END
    then
        version=$(macros "$mpi_cflags $c" H5public.h H5_VERS_MAJOR . H5_VERS_MINOR . H5_VERS_RELEASE)
        # Two MPI libraries in one program end in a crash far from here, so they are refused now.
        mpis=$(ldd "$work/probe" 2>/dev/null | awk '$1 ~ /^libmpi(ch)?[.]so/ && /=>/ {print $3}' | sort -u)
        if [ "$(echo "$mpis" | wc -l)" -gt 1 ]; then
            no 'HDF5' programs libhdf5-openmpi-dev HDF5 \
                "HDF5_ROOT: the one found ($from) was built with another MPI than the chosen one ($(echo "$mpis" | tr '\n' ' '))"
            return
        fi
        take "$c" "$l"
        yes HDF5 "$(dotted "$version"), parallel ($from)"
    else
        reason=$(grep -q 'built without MPI' "$work/log" && echo " (the one found at $from is built without MPI)")
        no HDF5 programs libhdf5-openmpi-dev HDF5 "HDF5_ROOT, or HDF5_CFLAGS and HDF5_LIBS$reason"
    fi
}

find_blas() {
    if [ -n "${BLAS_CFLAGS-}${BLAS_LIBS-}" ]; then
        c=${BLAS_CFLAGS-} l=${BLAS_LIBS-} from='BLAS_CFLAGS, BLAS_LIBS'
    elif has_pc openblas; then
        c=$(pkg-config --cflags openblas) l=$(pkg-config --libs openblas) from='pkg-config openblas'
    else
        c='' l=-lopenblas from="the compiler's own paths"
    fi
    if build "$c" "$l" <<'END'
#include <cblas.h>
int main() {
    double x[1] = {1};
    return cblas_ddot(1, x, 1, x, 1) == 1 ? 0 : 1;
}
END
    then
        version=$(macros "$c" openblas_config.h OPENBLAS_VERSION)
        case $version in '' | OPENBLAS_VERSION) version='with a C interface' ;; esac
        take "$c" "$l"
        yes BLAS "$(echo "$version" | tr -s ' ' | sed 's/^ //; s/ $//') ($from)"
    else
        no BLAS programs libopenblas-dev OpenBLAS 'BLAS_CFLAGS and BLAS_LIBS'
    fi
}

# VERSION: macros of the header (or of VERSION_HEADER), or pc:NAME for pkg-config's word and flags.
# find_library NAME ROOT_VARIABLE HEADER LIBS VERSION PACKAGE MODULE [NEEDED_BY [VERSION_HEADER]]
find_library() {
    eval "root=\${$2-}"
    c=$(root_cflags "$root") l="$(root_libs "$root")$4" pc=''
    case $5 in pc:*) [ -n "$root" ] || ! has_pc "${5#pc:}" || pc=${5#pc:} ;; esac
    [ -z "$pc" ] || c=$(pkg-config --cflags "$pc")
    if printf '#if !__has_include(<%s>)\n#error no header\n#endif\nint main() {}\n' "$3" | build "$c" "$l"; then
        # shellcheck disable=SC2086
        version=''
        # shellcheck disable=SC2086
        case $5 in
        pc:*) [ -z "$pc" ] || version=$(pkg-config --modversion "$pc") ;;
        *) version=$(dotted "$(macros "$c" "${9:-$3}" $5)" | tr _ .) ;;
        esac
        if [ "${8:-programs}" = programs ]; then take "$c" "$l"; else test_flags=$c test_libs=$l; fi
        yes "$1" "${version:-found}${root:+ ($root)}"
    else
        no "$1" "${8:-programs}" "$6" "$7" "$2"
    fi
}

# The GPU architectures to compile for.
choose_arch() {
    case ${ARCH-} in
    '' | native)
        found=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d . | sort -un |
            sed 's/^90$/90a/' | tr '\n' ' ')
        case $found in [0-9]*) echo "$found" && return ;; esac
        [ -z "${ARCH-}" ] || return 1
        echo '80 90a'
        ;;
    *) echo "$ARCH" | tr ',' ' ' ;;
    esac
}

# gpu_library NAME HEADER LIBS ROOT_VARIABLE MACRO...: one that CUDA builds need.
gpu_library() {
    name=$1 header=$2 gpu_l=$3 variable=$4
    shift 4
    eval "root=\${$variable-}"
    c="$(root_cflags "$root") $cuda_cflags" l="$(root_libs "$root")$gpu_l $cuda_libs"
    if printf '#include <%s>\nint main() {}\n' "$header" | build "$c" "-Wl,--no-as-needed $l"; then
        version=$(dotted "$(macros "$c" "$header" "$@")")
        yes "$name" "$version${root:+ ($root)}"
        cuda_cflags=$c cuda_libs=$l
    else
        gpu_no "$name" "set $variable (the folder that holds include/$header), or install NVIDIA's package"
    fi
}
gpu_no() {
    printf '  \342\234\227 %-11s not found (only GPUs need it): %s\n' "$1" "$2" >>"$report"
    cuda_found=0
    [ "${CUDA:-auto}" != 1 ] || lacking="$lacking, $1" modules="$modules CUDA"
}

# Without it attention is up to twice as slow, which nobody should find out from figures: CUDA=1 demands it unless it is
# left out by name, and so does a root that was set.
find_cudnn_frontend() {
    root=${CUDNN_FRONTEND_ROOT:-$mode/cudnn-frontend}
    if [ "$root" != none ] && [ -f "$root/include/cudnn_frontend.h" ]; then
        cuda_cflags="$cuda_cflags -I$(cd "$root/include" && pwd) -DTRIREME_CUDNN_FRONTEND"
        yes cudnn-frontend "$(macros "-I$root/include" cudnn_frontend_version.h CUDNN_FRONTEND_MAJOR_VERSION . \
            CUDNN_FRONTEND_MINOR_VERSION . CUDNN_FRONTEND_PATCH_VERSION | tr -d ' ') ($root)"
        return
    fi
    state='left out: own, slower attention kernels serve; make deps fetches it, or set CUDNN_FRONTEND_ROOT'
    if [ "$root" != none ] && [ "${CUDA:-auto}${CUDNN_FRONTEND_ROOT-}" != auto ]; then
        state="not in $root: set CUDNN_FRONTEND_ROOT (none: own, slower attention kernels)"
        [ -n "${CUDNN_FRONTEND_ROOT-}" ] || state="$state, or make deps CUDA=1 BUILD=$mode, which fetches it"
        lacking="$lacking, cudnn-frontend"
    fi
    printf '  \342\234\227 %-11s %s\n' cudnn-frontend "$state" >>"$report"
}

# Sets cuda_found and, with it, nvcc, cuda_arch, cuda_cflags, cuda_libs.
find_cuda() {
    cuda_found=0
    if [ "${CUDA:-auto}" = 0 ]; then
        printf '    %-11s %s\n' CUDA 'left out (CUDA=0): this build computes on CPUs' >>"$report"
        return
    fi
    nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
    if ! have "$nvcc" || ! cuda_arch=$(choose_arch); then
        gpu_no CUDA "module CUDA, or set NVCC; ARCH=${ARCH:-} needs a GPU here if it is native"
        return
    fi
    nvcc=$(command -v "$nvcc")
    root=$(readlink -f "$nvcc")
    root=${root%/bin/nvcc}
    echo '__global__ void kernel() {} int main() { kernel<<<1, 1>>>(); }' >"$work/probe.cu"
    first=${cuda_arch%% *}
    if ! "$nvcc" -std=c++20 -ccbin "${CXX%% *}" -gencode "arch=compute_$first,code=sm_$first" -c "$work/probe.cu" \
        -o "$work/probe.o" >"$work/log" 2>&1; then
        gpu_no CUDA "$nvcc cannot compile C++20 for $first with $CXX: $(head -n 1 "$work/log")"
        return
    fi
    lib=lib64
    [ -d "$root/lib64" ] || lib=lib
    cuda_found=1
    cuda_cflags="-I$root/include" cuda_libs="-L$root/$lib -Wl,-rpath,$root/$lib -lcublasLt -lcudart"
    yes CUDA "$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p') ($nvcc), for GPUs of kind $cuda_arch"
    # libcuda belongs to the driver and is never linked: the program must start without one.
    gpu_library cuBLASLt cublasLt.h '' CUBLAS_ROOT CUBLAS_VER_MAJOR . CUBLAS_VER_MINOR . CUBLAS_VER_PATCH
    gpu_library cuDNN cudnn.h -lcudnn CUDNN_ROOT CUDNN_MAJOR . CUDNN_MINOR . CUDNN_PATCHLEVEL
    gpu_library NCCL nccl.h -lnccl NCCL_ROOT NCCL_MAJOR . NCCL_MINOR . NCCL_PATCH
    [ "$cuda_found" = 1 ] || return
    find_cudnn_frontend
}

if [ "$mode" = --cluster-packages ] || [ "$mode" = --reader-packages ]; then
    if [ "$mode" = --cluster-packages ]; then find_cluster; else find_readers; fi
    echo "${packages# }"
    exit 0
fi
mpi_cflags='' mpi_libs='' test_flags='' test_libs=''
find_compiler
have pkg-config || packages="$packages pkg-config"
find_mpi
find_hdf5
find_blas
find_library Boost BOOST_ROOT boost/program_options.hpp -lboost_program_options BOOST_LIB_VERSION \
    libboost-program-options-dev Boost programs boost/version.hpp
find_library simdjson SIMDJSON_ROOT simdjson.h -lsimdjson pc:simdjson libsimdjson-dev simdjson
find_library zlib ZLIB_ROOT zlib.h -lz ZLIB_VERSION zlib1g-dev zlib
find_library zstd ZSTD_ROOT zstd.h -lzstd 'ZSTD_VERSION_MAJOR . ZSTD_VERSION_MINOR . ZSTD_VERSION_RELEASE' libzstd-dev zstd
find_library xxHash XXHASH_ROOT xxhash.h -lxxhash 'XXH_VERSION_MAJOR . XXH_VERSION_MINOR . XXH_VERSION_RELEASE' libxxhash-dev xxHash
find_library GoogleTest GTEST_ROOT gtest/gtest.h -lgtest pc:gtest libgtest-dev googletest tests

[ "$mode" = --packages ] || find_cuda

if [ "$mode" = --packages ]; then
    # pkg-config alone is no reason to install: it is asked for only when something was not found.
    [ "$packages" = ' pkg-config' ] || echo "$packages" | tr -s ' ' '\n' | sed '/^$/d' | sort -u | tr '\n' ' '
    exit 0
fi

mkdir -p "$mode"
if [ -n "$lacking" ]; then
    rm -f "$mode/config.mk"
    cat "$report"
    echo
    echo "  missing: ${lacking#, }"
    [ -z "$packages" ] || echo "  Debian, Ubuntu: make deps, or: apt-get install$(echo "$packages" | tr -s ' ' '\n' | sort -u | tr '\n' ' ')"
    echo "  on a cluster:   module load$modules (names differ from site to site), or set the variables named above"
    echo
    exit 1
fi
cp "$report" "$mode/config.txt"
cat >"$mode/config.mk.new" <<END
# Generated by scripts/find_dependencies.sh.
FOUND_CXX_VERSION := $cxx_version
FOUND_CFLAGS := $flags
FOUND_LIBS := $libs
FOUND_TEST_CFLAGS := $test_flags
FOUND_TEST_LIBS := $test_libs
FOUND_CUDA := $cuda_found
END
[ "$cuda_found" = 0 ] || cat >>"$mode/config.mk.new" <<END
FOUND_NVCC := $nvcc
FOUND_CUDA_ARCH := $cuda_arch
FOUND_CUDA_CFLAGS := $cuda_cflags
FOUND_CUDA_LIBS := $cuda_libs
END
mv "$mode/config.mk.new" "$mode/config.mk"
