#!/bin/sh
# Trains a retrieval head for SpeContext on a model's own answers to questions of HotpotQA:
#   tools/retrieval_head.sh PROGRAM MODEL OUT QUESTIONS
# MODEL is a Hugging Face directory.  QUESTIONS is a directory with hotpotqa.json; if it lacks this
# file, RULER's generators put it there.  OUT receives the head and the log of its training.
set -eu
tools=$(dirname "$0")
program=$1 model=$2 out=$3 questions=$4
if [ -e "$out/model.safetensors" ]; then
  echo "$out is there"
  exit
fi
[ -e "$questions/hotpotqa.json" ] || "$tools/ruler.sh" "$model" "$questions" --samples 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Processors without these instructions emulate products of bfloat16, which is slower.
bf16=
if grep -q 'avx512_bf16\|amx_bf16' /proc/cpuinfo; then bf16=--bf16; fi
"$program" method specontext dialogues --model "$model" --dataset mt-hotpotqa-distractor \
  --data hotpotqa="$questions" --turns 2 --length 600 --longest 1400 --limit 320 --seed 11 \
  -o "$work/dialogues.jsonl"
mkdir -p "$out"
log=$out/training.log
echo "training; $log has the progress, one line for 50 of 400 steps"
# shellcheck disable=SC2086
"$tools/python.sh" "$tools/requirements-retrieval-head.txt" "$tools/train_retrieval_head.py" \
  --model "$model" --data "$work/dialogues.jsonl" --out "$work/head" --steps 400 --batch 4 --rows 64 \
  --attention 1 --threads "$(nproc)" $bf16 > "$log"
mv "$work/head/"* "$out"
tail -n 1 "$log"
