#!/bin/sh
# Every shell script of the project through shellcheck: those named so, the sbatch templates, the files of sites, .ci/run. What
# users copy and edit has to be free of its remarks on style too.
set -eu
# shellcheck disable=SC2046
shellcheck -x $(find job_templates -name '*.sh' -o -name '*.sbatch' -o -name '*.env')
# shellcheck disable=SC2046
shellcheck -x -S warning $(find scripts tests -name '*.sh') .ci/run
