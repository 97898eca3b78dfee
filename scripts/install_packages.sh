#!/bin/sh
# Installs with apt what the build, the demo and the tests need and this machine lacks (`make deps`); with --cluster-packages
# what tests/slurm needs beyond that, with --reader-packages what reads our checkpoints in tests/scripts. What is there, from packages or modules, is left alone: when all is there nothing
# is asked for and nothing is changed.
set -eu
missing=$(scripts/find_dependencies.sh "${1:---packages}")
if [ -z "$missing" ]; then
    echo "deps: everything is here"
    exit 0
fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "deps: there is no apt-get here, so please provide what is missing:" >&2
    work=$(mktemp -d)
    scripts/find_dependencies.sh "$work" >&2 || true
    [ ! -f "$work/config.txt" ] || grep -v "$(printf '\342\234\223')" "$work/config.txt" >&2 || true
    rm -rf "$work"
    exit 1
fi
as_root=''
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "deps: missing packages: $missing" >&2
        echo "deps: this needs root and there is no sudo; as root: apt-get install --no-install-recommends $missing" >&2
        exit 1
    fi
    as_root=sudo
fi
echo "deps: installing $missing"
install() {
    # shellcheck disable=SC2086
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
}
# The package lists of a fresh machine are empty, those of an old one are stale: then they are fetched first.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! install >"$log" 2>&1; then
    if ! { $as_root apt-get update -q && install; } >"$log" 2>&1; then
        cat "$log" >&2
        echo "deps: apt-get could not install: $missing" >&2
        exit 1
    fi
fi
echo "deps: installed"
