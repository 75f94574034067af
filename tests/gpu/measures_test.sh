#!/bin/sh
# Runs the measures of tests/gpu.sh on a small model, on a backend whose speed has no meaning:
#   measures_test.sh PROGRAM SCRATCH
set -u
program=$1 scratch=$2
rm -rf "$scratch"
mkdir -p "$scratch"
failures=0
wrong() {
  echo "$1"
  cat "$scratch/said"
  failures=$((failures + 1))
}

"$program" --list > "$scratch/said"
[ "$(head -n 8 "$scratch/said" | cut -d ' ' -f 1 | tr '\n' ' ')" = "decode-4k prefill-8k \
attention-32k decode-128k quest-128k snapkv-128k pqcache-128k loopserve-128k " ] ||
  wrong "found another order of measures"
cp "$scratch/said" "$scratch/order"

while read -r name _; do
  # So small a layer cannot have 5% of its pairs; lengths and batches differ only in their numbers.
  case $name in sparse-128k | *-batch-4 | loopserve-8k | loopserve-16k | loopserve-32k | loopserve-64k)
    continue
    ;;
  esac
  arguments=
  if [ "$name" = attention-32k ]; then arguments="FLASH_ATTENTION=1000 CUDNN_ATTENTION="; fi
  # shellcheck disable=SC2086  # arguments are several
  "$program" "$name" "$scratch/$name" --small $arguments > "$scratch/said" 2>&1 < /dev/null
  code=$?
  [ $code -eq 0 ] || [ $code -eq 3 ] || wrong "$name: found exit code $code, expected 0 or 3"
  [ "$(grep -c -E '(reached|REACHED|measured)$' "$scratch/said")" -ge 2 ] ||
    wrong "$name: found no measure"
  [ "$(wc -l < "$scratch/said")" -eq "$(wc -l < "$scratch/$name")" ] ||
    wrong "$name: found another number of lines in its results"
  ! grep -q -w -e nan -e inf "$scratch/said" || wrong "$name: found no number"
  grep -q "^$name: device memory, at most  *<= 60 GB  *0\.[0-9] GB  *reached" "$scratch/said" ||
    wrong "$name: found no device memory within its limit"
  if [ "$name" = attention-32k ]; then
    grep -q "PyTorch's FLASH_ATTENTION  *>= 0.70 .* reached" "$scratch/said" ||
      wrong "$name: found no comparison with FLASH_ATTENTION"
    grep -q "PyTorch's CUDNN_ATTENTION  *unavailable  *measured" "$scratch/said" ||
      wrong "$name: found no word about CUDNN_ATTENTION"
  fi
done < "$scratch/order"

"$program" unknown "$scratch/unknown" > "$scratch/said" 2>&1
[ $? -eq 1 ] || wrong "an unknown measure: found another exit code"
exit $((failures > 0))
