#!/bin/sh
# The suites of a folder of programs on a card, side by side, as each leaves the card idle for most
# of its time:  tests/gpu/suites.sh build-gpu/tests/gpu
set -u
cd "$1"
shards=6
processes=""
for suite in kernels inference; do
  ./turnbench_${suite}_on_card_tests > $suite.log 2>&1 &
  processes="$processes $!"
done
for shard in $(seq 0 $((shards - 1))); do
  GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard \
    ./turnbench_methods_on_card_tests > methods-"$shard".log 2>&1 &
  processes="$processes $!"
done
trap : TERM  # comes to all of them; what they said is still to be shown
failed=0
for process in $processes; do wait "$process" || failed=1; done
for log in *.log; do
  echo "-- $log"
  grep -v '^\[\( *OK *\| *RUN *\|-*\)\]' "$log" | tail -n 80
done
exit $failed
