#!/bin/sh
# Decode attention that selects, on the geometry of Llama-3.2-1B in bfloat16 at 32K tokens: beside full
# attention, with all that each method does to choose; clusterkv and pqcache also with all keys and
# values on the device, where nothing is copied.
#   tests/bench/selection.sh [build/turnbench] [options of bench, e.g. --threads 2 --json]
set -eu
program=${1:-build/turnbench}
[ $# -gt 0 ] && shift
"$program" bench selection --model "random:$(dirname "$0")/llama-3.2-1b.json" --depth 32768 --kv-dtype bf16 \
  --repeats 5 --method quest:budget=1024 --method infllm:budget=1024 --method clusterkv:budget=1024 \
  --method clusterkv:budget=1024,placement=device --method pqcache:budget=1024,placement=device \
  --method shadowkv:budget=1024 --method pqcache:budget=1024 --method sparq:budget=1024 --method oracle:budget=1024 \
  "$@"
