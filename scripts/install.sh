#!/bin/sh
# Copies programs, manual, templates and documents below a prefix (`make install`), or writes the modulefiles of such an
# installation (`make modulefile`).
#   install.sh files BUILD PREFIX DESTDIR
#   install.sh modulefile PREFIX DESTDIR MODULE...   MODULEs: what must be loaded with it, usually what it was built with
set -eu
what=$1
shift
refuse() {
    echo "$what: PREFIX=$1: $2" >&2
    exit 2
}
# The prefix stands in modulefiles and shells, so it must mean the same everywhere.
check_prefix() {
    case $1 in /*) ;; *) refuse "$1" 'an absolute path is meant' ;; esac
    # shellcheck disable=SC2016
    case $1 in *[][\\\"{}\$\`\|\&]*) refuse "$1" 'brackets, quotes, backslashes, $, & and | do not work in modulefiles' ;; esac
}
files() {
    build=$1 root=$3$2
    check_prefix "$2"
    mkdir -p "$root/bin" "$root/share/man/man1" "$root/share/doc/trireme" "$root/share/trireme"
    cp -f "$build/bin/trireme" "$build/bin/trireme-data" "$root/bin/"
    cp -f docs/trireme.1 "$root/share/man/man1/"
    cp -Rf README.md LICENSE CHANGELOG.md docs "$root/share/doc/trireme/"
    cp -Rf job_templates "$root/share/trireme/"
    echo "installed below $root"
}
# filled FILE TCL-OR-LUA-REQUIREMENTS: a modulefile from its frame.
filled() {
    awk -v prefix="$prefix" -v version="$(cat VERSION)" -v requires="$2" '
        /^@(TCL|LUA)_REQUIRES@$/ { printf "%s", requires; next }
        { gsub(/@PREFIX@/, prefix); gsub(/@VERSION@/, version); print }' "$1"
}
modulefile() {
    prefix=$1 folder=$2$1/modulefiles/trireme tcl='' lua=''
    shift 2
    check_prefix "$prefix"
    for module in "$@"; do
        tcl="${tcl}prereq $module\\n"
        lua="${lua}depends_on(\\\"$module\\\")\\n"
    done
    mkdir -p "$folder"
    filled modules/trireme.tcl.in "$tcl" >"$folder/$(cat VERSION)"
    filled modules/trireme.lua.in "$lua" >"$folder/$(cat VERSION).lua"
    echo "wrote $folder/$(cat VERSION) (Environment Modules) and .lua (Lmod)${*:+, which need $*}"
    echo "try: module use $prefix/modulefiles && module load trireme"
}
"$what" "$@"
