#!/bin/sh
# Runs each of libFuzzer's programs in a folder for some seconds, or until it finds something.  New
# inputs are kept in the folder, from where the next run begins.
#   tests/fuzz/run.sh build-fuzz/tests/fuzz [60]
set -eu
programs=$1
seconds=${2:-60}
corpus=$(dirname "$0")/corpus
for program in "$programs"/turnbench_*_fuzz; do
  name=$(basename "$program" _fuzz)
  name=${name#turnbench_}
  mkdir -p "$programs/corpus/$name"
  echo "$name: $seconds s"
  "$program" -max_total_time="$seconds" -print_final_stats=1 -verbosity=0 -print_funcs=0 -timeout=20 -max_len=4096 \
    -artifact_prefix="$programs/$name-" "$programs/corpus/$name" "$corpus/$name"
done
