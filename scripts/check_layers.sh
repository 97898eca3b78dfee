#!/bin/sh
# Checks that every file below include/trireme and src includes only what its layer may (src/layers.txt), that the
# headers of MPI, HDF5 and CUDA stay where they belong, that public headers are free of them and of private headers,
# and that the layers form no circle. usage: check_layers.sh [--test] [ROOT]; --test prints one `ok` or `not ok`.
set -eu
test_mode=0
if [ "${1-}" = --test ]; then
    test_mode=1
    shift
fi
cd "${1:-.}"
if [ ! -f src/layers.txt ]; then
    echo "check-layers: src/layers.txt is missing" >&2
    exit 2
fi

find include/trireme src -type f \( -name '*.hpp' -o -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) \
    -print | sort | awk '
function violation(text) { print "  " text; violations++ }
function at() { return file ":" line_number ": " }
function starts(text, prefix) { return substr(text, 1, length(prefix)) == prefix }
function exists(path,   line, there) { there = (getline line < path) >= 0; close(path); return there }

# Depth first; a layer met again while it is still open closes a circle.
function visit(layer, trail,   i, n, list) {
    if (state[layer] == 2) return
    if (state[layer] == 1) { violation("src/layers.txt: a circle:" trail " " layer); return }
    state[layer] = 1
    n = split(allowed_list[layer], list, " ")
    for (i = 1; i <= n; i++) if (list[i] in known) visit(list[i], trail " " layer)
    state[layer] = 2
}

function read_layers(   text, number, layer, i, n, list) {
    while ((getline text < "src/layers.txt") > 0) {
        number++
        sub(/#.*/, "", text)
        if (text ~ /^[ \t]*$/) continue
        if (text !~ /^[a-z_]+:/) { violation("src/layers.txt:" number ": `layer: layers` is meant: " text); continue }
        layer = text; sub(/:.*/, "", layer)
        sub(/^[^:]*:/, "", text)
        known[layer] = number
        order[++layers] = layer
        allowed_list[layer] = text
    }
    for (i = 1; i <= layers; i++) {
        layer = order[i]
        n = split(allowed_list[layer], list, " ")
        for (k = 1; k <= n; k++) {
            if (list[k] == "*") { all[layer] = 1; continue }
            if (!(list[k] in known)) violation("src/layers.txt:" known[layer] ": " layer " may include " list[k] ", which is no layer")
            allowed[layer, list[k]] = 1
        }
    }
    for (i = 1; i <= layers; i++) visit(order[i], "")
}

# Headers of others that only some folders may see.
function check_foreign(header,   kind, places, i, n, list) {
    if (header ~ /^mpi(-ext)?\.h$/ || header ~ /^mpio\.h$/) { kind = "MPI"; places = "src/comm/mpi/ src/comm/nccl/ src/storage/" }
    else if (header ~ /^(hdf5(_hl)?|H5.*)\.h$/) { kind = "HDF5"; places = "src/storage/" }
    else if (header ~ /^nccl.*\.h$/) { kind = "NCCL"; places = "src/comm/nccl/" }
    else if (header ~ /^(cuda|cublas|cudnn|curand|cub\/|cooperative_groups|nvtx|nvml|device_launch|thrust\/)/) { kind = "CUDA"; places = "src/backend/cuda/ src/comm/nccl/" }
    else return
    n = split(places, list, " ")
    for (i = 1; i <= n; i++) if (starts(file, list[i])) return
    violation(at() "<" header ">: headers of " kind " belong under " places "only")
}

function check_include(header,   target, parts) {
    if (starts(header, "trireme/")) {
        split(header, parts, "/")
        target = parts[2]
        if ((target in known) && !exists("include/" header)) violation(at() header ": there is no such header")
    } else if (header ~ /^[a-z_]+\// && (substr(header, 1, index(header, "/") - 1) in known) && exists("src/" header)) {
        target = substr(header, 1, index(header, "/") - 1)
        if (public) violation(at() header ": a public header must not need a private one")
    } else {
        check_foreign(header)
        if (quoted) {
            if (header ~ /(^|\/)\.\.\//) violation(at() header ": write the path from src/ or include/, not with ..")
            else if (!exists(directory "/" header)) violation(at() header ": there is no such header in src, include or beside the file")
            else if (public) violation(at() header ": write trireme/" layer "/" header)
        }
        return
    }
    if (!(target in known)) violation(at() header ": " target " is no layer of src/layers.txt")
    else if (target != layer && !all[layer] && !((layer, target) in allowed))
        violation(at() layer " must not include " target " (" header ")")
}

BEGIN { read_layers() }
{
    file = $0
    public = starts(file, "include/")
    split(file, path, "/")
    layer = public ? path[3] : path[2]
    directory = file; sub(/\/[^\/]*$/, "", directory)
    if (!(layer in known)) { violation(file ": " layer " is no layer of src/layers.txt"); next }
    files++
    line_number = 0
    while ((getline text < file) > 0) {
        line_number++
        if (text !~ /^[ \t]*#[ \t]*include[ \t]*[<"]/) continue
        quoted = text ~ /^[ \t]*#[ \t]*include[ \t]*"/
        sub(/^[^<"]*[<"]/, "", text); sub(/[>"].*/, "", text)
        includes++
        check_include(text)
    }
    close(file)
}
END {
    if (violations) printf "check-layers: %d violation%s of src/layers.txt\n", violations, violations == 1 ? "" : "s"
    else printf "check-layers: %d files in %d layers, %d includes: all allowed\n", files, layers, includes
    exit violations > 0
}' && status=0 || status=$?
[ $test_mode = 0 ] || if [ "$status" = 0 ]; then echo "ok layers"; else echo "not ok layers"; fi
exit "$status"
