#!/bin/sh
# The core's speed on the geometry of Qwen2.5-0.5B with random weights, beside what this machine can
# do at that moment: prefill, decoding, sparse prefill of one layer, and what statistics cost.
#   tests/bench/core.sh [build/turnbench] [options of bench, e.g. --threads 2 --json]
set -eu
program=${1:-build/turnbench}
[ $# -gt 0 ] && shift
model=random:$(dirname "$0")/qwen2.5-0.5b.json
two_layers=random:$(dirname "$0")/qwen2.5-0.5b-2-layers.json
"$program" bench prefill --model "$model" --tokens 512,2048 "$@"
"$program" bench prefill --model "$two_layers" --tokens 8192,16384 --repeats 2 "$@"
"$program" bench decode --model "$model" --depth 0,8192 "$@"
"$program" bench decode --model "$model" --depth 0 --batch 8 "$@"
"$program" bench attention --model "$model" --tokens 16384 --repeats 2 \
  --method full --method loopserve-prefill --method minference:vertical=500,slash=700 "$@"
"$program" bench statistics --model "$two_layers" --tokens 8192 \
  --method snapkv --method sablock --method sentencekv --method h2o --method loopserve-decode "$@"
