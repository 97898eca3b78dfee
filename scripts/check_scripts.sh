#!/bin/sh
# Every shell script of the project through shellcheck: those named so, the sbatch templates, the files of sites, .ci/run.
set -eu
# shellcheck disable=SC2046
exec shellcheck -x $(find scripts tests job_templates -name '*.sh' -o -name '*.sbatch' -o -name '*.env') .ci/run
