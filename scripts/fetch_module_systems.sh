#!/bin/sh
# Unpacks Debian's two module systems below a folder of the build, so that modulefiles can be tried in both: as packages
# they exclude each other, and which one a machine has is its owner's choice. Nothing is installed.
#   fetch_module_systems.sh FOLDER   makes FOLDER/lmod.bash and FOLDER/tcl.bash, to be sourced by a shell that needs `module`
set -eu
folder=$1
[ ! -f "$folder/lmod.bash" ] || [ ! -f "$folder/tcl.bash" ] || exit 0
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
download() { (cd "$work" && apt-get download -q lmod environment-modules); }
if ! download >"$work/log" 2>&1 && ! { apt-get update -q && download; } >"$work/log" 2>&1; then
    tail -n 2 "$work/log" >&2
    echo "deps: the packages lmod and environment-modules could not be fetched" >&2
    exit 1
fi
for package in "$work"/*.deb; do dpkg -x "$package" "$folder"; done
# The start files name installed paths.
sed "s|/usr/share/lmod|$folder&|g" "$folder/usr/share/lmod/lmod/init/bash" >"$folder/lmod.bash"
sed "s|'/usr/lib/|'$folder/usr/lib/|" "$folder/usr/share/modules/init/bash" >"$folder/tcl.bash"
echo "deps: Lmod and Environment Modules unpacked into $folder"
