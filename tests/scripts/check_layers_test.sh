#!/bin/bash
# The layer check finds planted violations, each for its own reason, and passes a clean tree.
. tests/support/shell_test.sh
checker=$PWD/scripts/check_layers.sh

# A small clean project of three layers and the places where foreign headers may stand.
new_tree() {
    rm -rf "$scratch/tree"
    mkdir -p "$scratch"/tree/{include/trireme/{base,tensor,model},src/{base,tensor,model,comm/mpi,storage}}
    cd "$scratch/tree" || exit 1
    printf 'base:\ntensor: base # comment\ncomm: base\nstorage: comm\nmodel: base tensor\napp: *\n' >src/layers.txt
    echo '#include <vector>' >include/trireme/base/error.hpp
    printf '#include "trireme/base/error.hpp"\n' >include/trireme/tensor/tensor.hpp
    printf '#include "trireme/tensor/tensor.hpp"\n#include "tensor/inner.hpp"\n#include "beside.hpp"\n' >src/tensor/tensor.cpp
    touch src/tensor/inner.hpp src/tensor/beside.hpp include/trireme/model/model.hpp
    printf '#include <mpi.h>\n' >src/comm/mpi/calls.cpp
    printf '#include <mpi.h>\n#include <hdf5.h>\n' >src/storage/file.cpp
}
# planted NAME FILE LINE MESSAGE: the line added to the file is the one violation and is reported so.
planted() {
    new_tree
    echo "$3" >>"$2"
    local output status
    output=$("$checker")
    status=$?
    check_contains "$1" "$output" "$4"
    check_equal "$1: status and number" "$status $(echo "$output" | tail -n 1)" "1 check-layers: 1 violation of src/layers.txt"
}

new_tree
output=$("$checker")
check_equal "a clean tree passes" "$? $output" "0 check-layers: 8 files in 6 layers, 8 includes: all allowed"

planted "upward include of a source" src/base/error.cpp '#include "trireme/tensor/tensor.hpp"' \
    'src/base/error.cpp:1: base must not include tensor'
planted "upward include of a public header" include/trireme/base/error.hpp '#  include <trireme/model/model.hpp>' \
    'include/trireme/base/error.hpp:2: base must not include model'
planted "private header of a layer above" src/base/error.cpp '#include "tensor/inner.hpp"' \
    'src/base/error.cpp:1: base must not include tensor'
planted "private header in a public one" include/trireme/tensor/tensor.hpp '#include "tensor/inner.hpp"' \
    'a public header must not need a private one'
planted "MPI outside its places" src/model/model.cpp '#include <mpi.h>' \
    'src/model/model.cpp:1: <mpi.h>: headers of MPI belong under src/comm/mpi/'
planted "MPI in a public header" include/trireme/model/model.hpp '#include <mpi.h>' 'headers of MPI belong'
planted "HDF5 outside storage" src/comm/mpi/more.cpp '#include <hdf5.h>' 'headers of HDF5 belong under src/storage/'
planted "CUDA outside its places" src/model/model.cpp '#include <cuda_runtime.h>' 'headers of CUDA belong'
planted "cuBLAS outside its places" src/model/model.cpp '#include <cublasLt.h>' 'headers of CUDA belong'
planted "NCCL outside its place" src/comm/mpi/more.cpp '#include <nccl.h>' 'headers of NCCL belong'
planted "a header that is not there" src/base/error.cpp '#include "trireme/base/lost.hpp"' 'there is no such header'
planted "a path with .." src/tensor/more.cpp '#include "../base/error.hpp"' 'not with ..'
planted "a layer that is not listed" src/base/error.cpp '#include "trireme/other/x.hpp"' 'other is no layer of src/layers.txt'
planted "a layer list that names nobody" src/layers.txt 'plan: nobody' 'plan may include nobody, which is no layer'

new_tree
printf 'one: three\ntwo: one\nthree: two\n' >>src/layers.txt
check_contains "a circle" "$("$checker")" 'src/layers.txt: a circle: one three two one'

new_tree
mkdir src/unknown && touch src/unknown/x.cpp
check_contains "a folder that is no layer" "$("$checker")" 'src/unknown/x.cpp: unknown is no layer of src/layers.txt'

new_tree
mkdir src/app && printf '#include "trireme/model/model.hpp"\n#include "trireme/base/error.hpp"\n' >src/app/main.cpp
"$checker" >/dev/null
check_equal "* allows every layer" "$?" 0
