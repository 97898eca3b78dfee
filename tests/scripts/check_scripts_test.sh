#!/bin/bash
# Every shell script, template and site file is clean by shellcheck, where there is one.
. tests/support/shell_test.sh
if ! command -v shellcheck >/dev/null; then
    echo "ok shellcheck # SKIP there is no shellcheck here"
    exit 0
fi
check_equal "shellcheck finds nothing" "$(scripts/check_scripts.sh 2>&1)" ""
