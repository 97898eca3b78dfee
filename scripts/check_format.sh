#!/bin/sh
# Checks that all C++ sources are formatted as .clang-format says; with --fix formats them. Another version of
# clang-format than 14 formats some lines differently, so it is refused.
set -eu
tool=${CLANG_FORMAT:-clang-format}
if ! "$tool" --version 2>/dev/null | grep -q 'version 14\.'; then
    echo "format: clang-format 14 is needed: Debian package clang-format-14, or CLANG_FORMAT=PATH" >&2
    exit 2
fi
files=$(find include src data_tools tests \( -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \))
if [ "${1-}" = --fix ]; then
    # shellcheck disable=SC2086
    "$tool" -i $files
else
    # shellcheck disable=SC2086
    "$tool" --dry-run -Werror $files || {
        echo "format: the lines above are not formatted; \`make format\` does it" >&2
        exit 1
    }
fi
