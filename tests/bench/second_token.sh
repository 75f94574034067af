#!/bin/sh
# Time to the second token of pqcache beside full attention, on a prompt of 8,192 random tokens and the geometry of
# Qwen2.5-0.5B: what building its index behind the prefill costs.  Prints each round's ratio and the median.
#   tests/bench/second_token.sh [build/turnbench] [rounds] [method]
set -eu
program=${1:-build/turnbench}
rounds=${2:-3}
method=${3:-pqcache:budget=0.2,max_iter=10}
model=random:$(dirname "$0")/qwen2.5-0.5b.json
ids=$(awk 'BEGIN { srand(1); for (i = 0; i < 8192; ++i) printf "%s%d", i ? "," : "", 1000 * rand() }')
seconds() {
  "$program" generate --model "$model" --ids "$ids" --method "$1" --max-tokens 2 --json |
    sed -n 's/.*"tt2t_s": *\([0-9.e-]*\).*/\1/p'
}
round=0
while [ "$round" -lt "$rounds" ]; do
  round=$((round + 1))
  full=$(seconds full)
  other=$(seconds "$method")
  awk -v a="$full" -v b="$other" 'BEGIN { printf "%.2f s full, %.2f s, %.3f\n", a, b, b / a }'
done | tee /dev/stderr | awk '{ print $NF }' | sort -n | awk -v method="$method" '
  { ratio[NR] = $1 } END { printf "%s: median %.3f of full\n", method, ratio[int((NR + 1) / 2)] }'
