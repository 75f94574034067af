# The test suites on a GPU, one process each.  Sourced by tests/gpu.sh.
# shellcheck shell=sh disable=SC2154  # of tests/gpu.sh

# suite NAME SECONDS PROGRAM FILTER [SHARD SHARDS]
suite() {
  part "$1" "$2" env GTEST_BRIEF=1 GTEST_SHARD_INDEX="${5:-0}" GTEST_TOTAL_SHARDS="${6:-1}" \
    "$programs/turnbench_$3_on_card_tests" --gtest_filter="$4"
}

test_all() {
  prepare_programs || finish
  suite kernels 90 kernels '*'

  # In parallel, because each leaves the GPU idle most of the time.
  numbered=10 processes='' shards=6
  suite inference 150 inference '*' & processes=$!
  for shard in $(seq 0 $((shards - 1))); do
    numbered=$((numbered + 1))
    suite "methods, shard $((shard + 1)) of $shards" 150 methods '-*GreedyAnswers*' "$shard" $shards &
    processes="$processes $!"
  done
  numbered=$((numbered + 1))
  suite answers 150 methods '*GreedyAnswers*' & processes="$processes $!"
  for process in $processes; do wait "$process"; done

  if ! command -v compute-sanitizer > /dev/null; then
    fact "compute-sanitizer" "not found"
    finish
  fi
  small='Elementwise.RotatesHeads:Elementwise.EmbedsTokens:Elementwise.CopiesRows:Elementwise.Adds'
  small=$small:'Linear.TakesStridesAndAddressesOfAnyAlignment:DeviceCopies.NoneAtAll:*Append.*/1'
  small=$small:'CudaAttendRows.KeysThatAreSplit:CudaAttendRows.RowsThatSeeNothing'
  small=$small:'CudaDecodeAttention.Slots:RowStatistics.RowProbabilitiesOfChosenRows'
  for check in memcheck racecheck; do
    part "compute-sanitizer, $check" 60 compute-sanitizer --tool $check --error-exitcode 1 \
      "$programs/turnbench_kernels_on_card_tests" --gtest_filter="$small"
  done
  finish
}
