#!/bin/bash
# The demo script's own work: the order of its steps, the table it reads out of metrics.jsonl, and its end when a step
# or the result is wrong. The programs are stand-ins here; `make demo` itself runs the real ones.
. tests/support/shell_test.sh
script=$PWD/scripts/demo.sh
cd "$scratch" || exit 1
mkdir -p build/bin text
export BUILD=build MPIRUN=$scratch/mpirun DEMO_TEXT=text DEMO_ITERS=40
unset DEMO_PROMPT
stand_in() { cat >"$1" && chmod +x "$1"; }
stand_in mpirun <<'END'
#!/bin/sh
while [ "$1" != -np ]; do shift; done
echo "ranks $2" >>calls
shift 2
exec "$@"
END
stand_in build/bin/trireme-data <<'END'
#!/bin/sh
echo "data $1" >>calls
[ "$1" != "$(cat broken 2>/dev/null)" ]
END
# Writes metrics as a run does, up to --exit-interval or --train-iters; the last loss is in the file `last`.
stand_in build/bin/trireme <<'END'
#!/bin/sh
echo "trireme $1" >>calls
[ "$1" = pretrain ] || { echo "text that follows"; exit 0; }
metrics=build/demo/checkpoints/metrics.jsonl
mkdir -p build/demo/checkpoints
case "$*" in
*--exit-interval*)
    echo '{"iteration": 1, "lm loss": 8.25, "tokens per second": 100}' >>$metrics
    echo '{"iteration": 20, "lm loss": 6.5, "grad norm": 1, "tokens per second": 300}' >>$metrics
    echo '{"iteration": 20, "validation loss": 6.625, "validation perplexity": 754}' >>$metrics ;;
*)
    echo '{"iteration": 40, "lm loss": '"$(cat last)"', "tokens per second": 5e2}' >>$metrics
    echo '{"iteration": 40, "validation loss": 4.125}' >>$metrics ;;
esac
END
run() {
    : >calls
    "$script" >output 2>&1
}
# The numbers of a row of the table, single blanks between.
row() { grep "^  $1" output | tr -s ' ' | sed 's/ $//'; }

echo 4.0 >last
run
check_equal "it succeeds" "$?" 0
check_equal "the steps" "$(tr '\n' ';' <calls)" \
    "data collect;data train-bpe;data preprocess;ranks 4;trireme pretrain;ranks 4;trireme pretrain;trireme generate;"
check_equal "table: start" "$(row 'start ')" " start 1 8.2500 6.6250 (20)"
check_equal "table: switch" "$(row 'switch ')" " switch (TP 2 x PP 2) 20 6.5000 6.6250 200"
check_equal "table: end" "$(row 'end ')" " end (PP 2 x DP 2) 40 4.0000 4.1250 500"
check_contains "how far the loss fell" "$(cat output)" "the loss fell to 48.5 % of the first"
check_contains "the generated text is shown" "$(cat output)" "text that follows"
echo 5.0 >last
run
check_equal "a loss that fell too little is a failure" "$?" 1
check_contains "and says so" "$(cat output)" "the loss fell to 60.6 % of the first only"
echo nan >last
run
check_equal "a loss that is no number is a failure" "$?" 1
echo preprocess >broken
run
check_equal "a failed step ends the demo" "$? $(tail -n 1 calls)" "1 data preprocess"
check_contains "and names its log" "$(cat output)" "step 3 failed (log: build/demo/step3.log)"
rm broken
DEMO_TEXT=nowhere run
check_equal "DEMO_TEXT that is not there" "$? $(cat output)" "1 demo: DEMO_TEXT=nowhere is not a directory"
DEMO_ITERS=30 run
check_equal "DEMO_ITERS that does not fit" "$? $(cat output)" "1 demo: DEMO_ITERS=30: a multiple of 20 from 40 up is meant"
